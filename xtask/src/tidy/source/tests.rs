use super::{closing, code_of, line_of, words};

#[test]
fn comments_and_literals_are_blanked() {
    let source = "a // unsafe\nb /* unsafe /* x */ unsafe */ c \"uns\\\"afe\" d";
    assert_eq!(code_of(source).split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!(code_of(source).lines().count(), source.lines().count());
    assert_eq!(code_of(source).len(), source.len());
}

#[test]
fn raw_strings_end_at_their_own_quote() {
    assert_eq!(
        code_of("x = r#\"un\"safe\"#; y").split_whitespace().collect::<Vec<_>>(),
        ["x", "=", ";", "y"]
    );
    assert_eq!(code_of("br\"a\\\" z").split_whitespace().collect::<Vec<_>>(), ["b", "z"]);
    assert_eq!(code_of("for \"x\" y").split_whitespace().collect::<Vec<_>>(), ["for", "y"]);
}

#[test]
fn a_lifetime_is_no_character() {
    assert_eq!(code_of("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    assert_eq!(code_of("['{', '\\'', '\\u{7d}', 'é', b'\"']").replace(' ', ""), "[,,,,b]");
}

#[test]
fn words_stand_alone() {
    assert_eq!(words("unsafe unsafe_code xunsafe (unsafe)", "unsafe").collect::<Vec<_>>(), [0, 28]);
}

#[test]
fn brackets_and_lines() {
    let code = "{ a { b } c } d";
    assert_eq!(&code[..closing(code, 0)], "{ a { b } c }");
    assert_eq!(line_of("a\nb\nc", 4), 3);
}
