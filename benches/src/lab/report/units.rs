//! Numbers as people read them.

use crate::lab::study::{Unit, Value};

/// A time with a unit that fits.
pub(in crate::lab) fn duration(nanos: f64) -> String {
    match nanos {
        n if n < 999.5 => format!("{n:.0} ns"),
        n if n < 99_950.0 => format!("{:.1} µs", n / 1e3),
        n if n < 999_500.0 => format!("{:.0} µs", n / 1e3),
        n if n < 99_950_000.0 => format!("{:.1} ms", n / 1e6),
        n if n < 999_500_000.0 => format!("{:.0} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Bytes with a unit that fits.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 1024.0 => format!("{b:.0} B"),
        b if b < 1024.0 * 1024.0 => format!("{:.1} KiB", b / 1024.0),
        b if b < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", b / (1024.0 * 1024.0)),
        b => format!("{:.2} GiB", b / (1024.0 * 1024.0 * 1024.0)),
    }
}

/// A number with as many digits as people need.
pub(super) fn short(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 || value.abs() >= 1e4 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Two decimals, a true minus, and no minus before nothing.
pub(super) fn signed(value: f64) -> String {
    format!("{value:.2}").replace('-', "−").replace("−0.00", "0.00")
}

/// 1234567 as "1,234,567".
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number in its unit.
pub(super) fn number(value: f64, unit: &Unit) -> String {
    match unit {
        Unit::Count | Unit::Of(_) => count(value),
        Unit::Nanos => duration(value),
        Unit::Bytes => bytes(value),
        Unit::Share if value != 0.0 && value.abs() < 0.01 => format!("{:.3} %", value * 100.0),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Number => signed_short(value),
    }
}

fn count(value: f64) -> String {
    if (value - value.round()).abs() > 1e-9 && value.abs() < 1e3 {
        return short(value);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, rounded")]
    let whole = grouped(value.abs().round() as u64);
    if value < 0.0 { format!("−{whole}") } else { whole }
}

/// Two decimals, or three significant digits below a tenth.
fn signed_short(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.1 {
        let decimals = match value.abs() {
            v if v < 1e-4 => return format!("{value:.1e}").replace('-', "−"),
            v if v < 1e-3 => 6,
            v if v < 1e-2 => 5,
            _ => 4,
        };
        return format!("{value:.decimals$}").replace('-', "−");
    }
    short(value).replace('-', "−")
}

/// A value of a table in its column's unit.
pub(super) fn value(value: &Value, unit: &Unit) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(value) => number(*value, unit),
        Value::Interval(i) => {
            format!("{} [{}, {}]", number(i.median, unit), number(i.low, unit), number(i.high, unit))
        }
        Value::Nothing => "–".into(),
    }
}

/// A label with its unit, where the numbers do not show it themselves.
pub(super) fn labelled(label: &str, unit: &Unit) -> String {
    match unit {
        Unit::Of(what) => format!("{label} ({what})"),
        Unit::Bytes => format!("{label} (bytes)"),
        Unit::Share => format!("{label} (%)"),
        Unit::Nanos => format!("{label} (time)"),
        Unit::Count | Unit::Number => label.to_owned(),
    }
}

/// A tick of an axis, without digits it does not need.
pub(super) fn tick(value: f64, unit: &Unit) -> String {
    let trim = |value: f64| format!("{}", (value * 100.0).round() / 100.0);
    match unit {
        Unit::Nanos => {
            let (value, unit) = match value {
                n if n < 1e3 => (n, "ns"),
                n if n < 1e6 => (n / 1e3, "µs"),
                n if n < 1e9 => (n / 1e6, "ms"),
                n => (n / 1e9, "s"),
            };
            format!("{} {unit}", trim(value))
        }
        Unit::Bytes => bytes(value),
        Unit::Share => format!("{} %", trim(value * 100.0)),
        Unit::Count | Unit::Number | Unit::Of(_) => match value {
            x if x >= 1e9 => format!("{}G", trim(x / 1e9)),
            x if x >= 1e6 => format!("{}M", trim(x / 1e6)),
            x if x >= 1e4 => format!("{}k", trim(x / 1e3)),
            x if x < 0.01 && x > 0.0 => format!("{x:.0e}"),
            x => trim(x),
        },
    }
}
