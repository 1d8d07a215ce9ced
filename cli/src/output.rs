//! How answers look: tables, numbers, sizes and times as people read them.

use std::io::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};
use serde::Serialize;

use crate::failure::Failure;

/// Where answers go: standard output, or a test's buffer.
pub(crate) type Out<'a> = &'a mut dyn Write;

/// Write a line of an answer.
macro_rules! say {
    ($out:expr $(, $($format:tt)*)?) => {
        writeln!($out $(, $($format)*)?).map_err(|error| $crate::failure::Failure::output(&error))
    };
}
pub(crate) use say;

/// Write a line to standard error. Nobody need read it: that is no reason to end differently.
macro_rules! note {
    ($($format:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($format)*);
    }};
}
pub(crate) use note;

/// Write `value` as indented JSON.
pub(crate) fn json(out: Out<'_>, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("plain data with text keys is always JSON");
    say!(out, "{text}")
}

/// A header with a rule under it, columns without lines between them; nothing wider than the terminal.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// A table; a column whose header begins with `>` is aligned to the right, as numbers are.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = terminal_columns() {
        table.set_width(columns);
    }
    table.set_header(header.iter().map(|name| name.trim_start_matches('>')));
    for (name, column) in header.iter().zip(table.column_iter_mut()) {
        if name.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Write `table` without blanks at the ends of its lines.
pub(crate) fn show(out: Out<'_>, table: &Table) -> Result<(), Failure> {
    say!(out, "{}", table.trim_fmt())
}

/// Columns of the terminal that standard output is, `None` if it is none.
pub(crate) fn terminal_columns() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// `1,234,567/s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", grouped(&format!("{per_second:.0}")))
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 table`, `2 tables`, `3 entries`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    let shown = count(number);
    match one.strip_suffix('y') {
        _ if number == 1 => format!("{shown} {one}"),
        Some(stem) => format!("{shown} {stem}ies"),
        None => format!("{shown} {one}s"),
    }
}

/// `12.3 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut scaled = number as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// `1.23 µs`: three digits.
pub(crate) fn time(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (scaled, unit) = match nanos {
        n if n < 999.5 => return format!("{n:.0} ns"),
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match scaled {
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$} {unit}")
}

/// `text` in at most `columns` characters, the last one `…` if something was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [counted(1, "table"), counted(2, "table"), counted(0, "entry")],
            ["1 table", "2 tables", "0 entries"]
        );
    }

    #[test]
    fn sizes_and_times_keep_three_digits() {
        assert_eq!(
            [0, 1023, 1024, 1_048_575, 5 << 30].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 GiB"]
        );
        let times = [0, 999, 1_000, 12_345, 123_456, 999_700, 2_500_000_000];
        let shown = times.map(|nanos| time(Duration::from_nanos(nanos)));
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "123 µs", "1.00 ms", "2.50 s"]);
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(cut("ёжик", 4), "ёжик");
        assert_eq!(cut("ёжики", 4), "ёжи…");
    }
}
