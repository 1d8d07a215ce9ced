//! Moments as calendar fields: year, month, day, hour, minute, second, millisecond, in UTC.
//!
//! Nine bytes of fixed width behind the code, most significant field first, so that a year, a month or a day
//! is a range of keys. A plain integer of milliseconds sorts the same in six bytes; calendar fields are for
//! keys that people and other programs read, and for ranges made without calendar arithmetic.

use std::fmt;

use super::code;
use super::decode::{Fields, KeyError, UnpackField};
use super::encode::PackField;

const DAY_MS: i64 = 86_400_000;

/// A moment of the years 0 to 9999 in UTC, to the millisecond. Leap seconds do not exist, as in Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc {
    // In the order of comparison.
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    millisecond: u16,
}

fn days_of(year: u16, month: u8) -> u8 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Utc {
    /// Midnight at the start of a day; `None` if there is no such day.
    pub fn day(year: u16, month: u8, day: u8) -> Option<Utc> {
        let real = year <= 9999 && (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        real.then_some(Utc { year, month, day, hour: 0, minute: 0, second: 0, millisecond: 0 })
    }

    /// The same day at this time; `None` if there is no such time.
    pub fn at(self, hour: u8, minute: u8, second: u8, millisecond: u16) -> Option<Utc> {
        let real = hour < 24 && minute < 60 && second < 60 && millisecond < 1_000;
        real.then_some(Utc { hour, minute, second, millisecond, ..self })
    }

    /// The moment `ms` milliseconds after 1970 began, or before it; `None` outside the years 0 to 9999.
    ///
    /// The date is found by counting days in eras of 400 years that begin in March
    /// (<https://howardhinnant.github.io/date_algorithms.html>).
    pub fn from_unix_ms(ms: i64) -> Option<Utc> {
        let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let small = |value: i64| u8::try_from(value).ok();
        let date = Utc::day(u16::try_from(year).ok()?, small(month)?, small(day)?)?;
        let (hour, minute) = (small(rest / 3_600_000)?, small(rest / 60_000 % 60)?);
        date.at(hour, minute, small(rest / 1_000 % 60)?, u16::try_from(rest % 1_000).ok()?)
    }

    /// Milliseconds since 1970 began; negative before.
    pub fn unix_ms(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let minutes = i64::from(self.hour) * 60 + i64::from(self.minute);
        days * DAY_MS + minutes * 60_000 + i64::from(self.second) * 1_000 + i64::from(self.millisecond)
    }

    /// The year, 0 to 9999.
    pub fn year(self) -> u16 {
        self.year
    }

    /// The month, 1 to 12.
    pub fn month(self) -> u8 {
        self.month
    }

    /// The day of the month, from 1.
    pub fn day_of_month(self) -> u8 {
        self.day
    }

    /// Hour, minute, second and millisecond.
    pub fn time(self) -> (u8, u8, u8, u16) {
        (self.hour, self.minute, self.second, self.millisecond)
    }

    fn to_bytes(self) -> [u8; 9] {
        let ([y0, y1], [m0, m1]) = (self.year.to_be_bytes(), self.millisecond.to_be_bytes());
        [y0, y1, self.month, self.day, self.hour, self.minute, self.second, m0, m1]
    }

    /// The moment with these bytes; `None` if they are none.
    pub(super) fn from_bytes(bytes: [u8; 9]) -> Option<Utc> {
        let [y0, y1, month, day, hour, minute, second, m0, m1] = bytes;
        let date = Utc::day(u16::from_be_bytes([y0, y1]), month, day)?;
        date.at(hour, minute, second, u16::from_be_bytes([m0, m1]))
    }
}

/// As in ISO 8601: `2014-12-24T18:30:00.000Z`.
impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc { year, month, day, hour, minute, second, millisecond } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

impl PackField for Utc {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(code::UTC);
        out.extend_from_slice(&self.to_bytes());
    }
}

impl UnpackField for Utc {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.utc()
    }
}

/// A stretch of the calendar, for [`Space::during`](super::Space::during).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    first: Utc,
    last: Utc,
}

impl Period {
    fn months(year: u16, from: u8, to: u8) -> Option<Period> {
        let last = Utc::day(year, to, days_of(year, to))?.at(23, 59, 59, 999)?;
        Some(Period { first: Utc::day(year, from, 1)?, last })
    }

    /// A year, 0 to 9999.
    pub fn year(year: u16) -> Option<Period> {
        Period::months(year, 1, 12)
    }

    /// A quarter of a year, 1 to 4.
    pub fn quarter(year: u16, quarter: u8) -> Option<Period> {
        let last = quarter.checked_mul(3).filter(|last| *last > 0)?;
        Period::months(year, last - 2, last)
    }

    /// A month, 1 to 12.
    pub fn month(year: u16, month: u8) -> Option<Period> {
        Period::months(year, month, month)
    }

    /// A day.
    pub fn day(year: u16, month: u8, day: u8) -> Option<Period> {
        let first = Utc::day(year, month, day)?;
        Some(Period { first, last: first.at(23, 59, 59, 999)? })
    }

    /// An hour of a day.
    pub fn hour(year: u16, month: u8, day: u8, hour: u8) -> Option<Period> {
        let first = Utc::day(year, month, day)?.at(hour, 0, 0, 0)?;
        Some(Period { first, last: first.at(hour, 59, 59, 999)? })
    }

    /// Its first millisecond.
    pub fn first(&self) -> Utc {
        self.first
    }

    /// Its last millisecond.
    pub fn last(&self) -> Utc {
        self.last
    }
}
