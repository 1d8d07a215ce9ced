use super::*;

fn mail(text: &str) -> Result<Mail> {
    parse(text.as_bytes(), "mail.tsv".as_ref())
}

#[test]
fn mailboxes_are_numbered_by_name_and_messages_ordered() {
    let text = "9\tzoe/inbox/1\t1357084799\tHi\t4\n\n2\tann/sent/1\t1357084800\r\n1\tann\t0\tFirst\n";
    let found = mail(text).expect("mail");
    let message = |mailbox, day, id: &str, seconds, text: &str| Message {
        mailbox,
        day,
        id: id.to_owned(),
        seconds,
        text: text.to_owned(),
    };
    let messages = vec![
        message(0, 19_700_101, "1", 0, "First"),
        message(0, 20_130_102, "2", 1_357_084_800, ""),
        message(1, 20_130_101, "9", 1_357_084_799, "Hi"),
    ];
    assert_eq!(found, Mail { mailboxes: 2, messages });
    // The same id in another mailbox is another message.
    assert_eq!(mail("1\ta/x\t5\n1\tb/x\t5\n").expect("mail").messages.len(), 2);
}

#[test]
fn a_malformed_line_is_named() {
    let good = "1\tann/inbox/1\t1357084800\tHi\n";
    for (line, what) in [
        ("2\tann/inbox/2", "it has 2 columns; id, path and time are needed"),
        ("\tann/inbox/2\t5", "the id has 0 bytes"),
        ("2\t/inbox/2\t5", "the mailbox, before the path's first /, has 0 bytes"),
        ("2\tann/inbox/2\tsoon", "the time \"soon\" is no number of seconds since 1970"),
        ("2\tann/inbox/2\t-5", "the time \"-5\" is no number"),
        ("2\tann/inbox/2\t", "the time \"\" is no number"),
        ("2\tann/inbox/2\t99999999999999999999", "is no number of seconds"),
        ("2\tann/inbox/2\t999999999999999", "is no number of seconds"),
        ("1\tann/sent/9\t5", "the message 1 is in this mailbox already"),
    ] {
        let error = mail(&format!("{good}{line}\n")).expect_err("it is malformed").to_string();
        assert!(error.starts_with("mail.tsv, line 2: ") && error.contains(what), "{error}");
    }
    let long = format!("{good}{}\n", "x".repeat(70_000));
    assert!(
        mail(&long).expect_err("it is long").to_string().contains("line 2: it is longer than 65536 bytes")
    );
    assert!(mail("\n\n").expect_err("it is empty").to_string().contains("mail.tsv has no mail"));
}

#[test]
fn a_missing_file_is_named() {
    let error = read("no-such-mail.tsv".as_ref()).expect_err("it is not there").to_string();
    assert!(error.contains("no-such-mail.tsv"), "{error}");
}
