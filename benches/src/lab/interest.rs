//! Who played what, and how often: tables of users and items from a file.
//!
//! Text, plain or gzip, one fact a line; columns are separated by tabs, `::` or commas, whichever the
//! first line has, in this order of preference. Commas may stand between double quotes. Columns are
//! named or numbered in [`Columns`]. Facts of the same user, item and day are added up.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{LabError, Result, files};

/// A file of facts and where its columns are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The file.
    pub file: PathBuf,
    /// Its columns.
    pub columns: Columns,
}

/// One column: by the name in the first line, or by its place, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnAt {
    /// The name.
    Name(String),
    /// The place.
    Place(usize),
}

/// Which columns hold what.
///
/// ```
/// use esker_bench::lab::interest::{ColumnAt, Columns};
/// let columns: Columns = "user=reviewerId,item=2,day=date".parse()?;
/// assert_eq!(columns.item, ColumnAt::Place(2));
/// assert!("user=1".parse::<Columns>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The user's id.
    pub user: ColumnAt,
    /// The item's id: a game, an artist, a vendor.
    pub item: ColumnAt,
    /// The day: `2006-04-07`, with or without a time; `20060407`; or seconds since 1970. Without it all
    /// facts are of one day.
    pub day: Option<ColumnAt>,
    /// How often, or how many hours: a number with up to three decimals. Without it every line counts 1.
    pub count: Option<ColumnAt>,
    /// Whether the first line names the columns though none is chosen by its name. A first line whose
    /// day or count is none is taken for such a line anyway.
    pub header: bool,
}

impl Default for Columns {
    /// User and item in the first two columns.
    fn default() -> Self {
        let (user, item) = (ColumnAt::Place(1), ColumnAt::Place(2));
        Columns { user, item, day: None, count: None, header: false }
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let (mut user, mut item, mut day, mut count, mut header) = (None, None, None, None, false);
        for part in text.split(',') {
            let (what, at) = match part.split_once('=') {
                None if part.trim() == "header" => {
                    header = true;
                    continue;
                }
                None => return Err(format!("{part:?} is neither `header` nor like user=1")),
                Some((what, at)) => (what.trim(), at.trim()),
            };
            let at = match at.parse() {
                Ok(0) => return Err("columns are numbered from 1".to_owned()),
                Ok(place) => ColumnAt::Place(place),
                Err(_) if at.is_empty() => return Err(format!("{what} names no column")),
                Err(_) => ColumnAt::Name(at.to_owned()),
            };
            let slot = match what {
                "user" => &mut user,
                "item" => &mut item,
                "day" => &mut day,
                "count" => &mut count,
                _ => return Err(format!("{what:?} is none of user, item, day, count")),
            };
            if slot.replace(at).is_some() {
                return Err(format!("{what} is given twice"));
            }
        }
        let (Some(user), Some(item)) = (user, item) else {
            return Err("user and item are needed, such as user=1,item=2".to_owned());
        };
        Ok(Columns { user, item, day, count, header })
    }
}

/// One line's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The day, as year, month and day in one number: 20060407. 0 without dates.
    pub day: u32,
    /// An index of [`Table::users`].
    pub user: u32,
    /// An index of [`Table::items`].
    pub item: u32,
    /// How often; in thousandths if the file has decimals.
    pub amount: u64,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Users, ascending bytewise.
    pub users: Vec<String>,
    /// Items, ascending bytewise.
    pub items: Vec<String>,
    /// Facts by day, user and item; each of these once.
    pub facts: Vec<Fact>,
    /// Lines that were read, without the header.
    pub lines: u64,
    /// Whether amounts are in thousandths.
    pub thousandths: bool,
}

impl Interest {
    /// Read the file. [`LabError::BadFact`] names the first line that is not as `columns` says;
    /// [`LabError::Empty`] if the file has no facts.
    pub fn read(&self) -> Result<Table> {
        parse(files::open_text(&self.file)?, &self.file, &self.columns)
    }
}

/// How the columns of a file are separated.
#[derive(Clone, Copy)]
enum Separator {
    Tab,
    Colons,
    Comma,
}

impl Separator {
    fn of(line: &str) -> Option<Separator> {
        match line {
            line if line.contains('\t') => Some(Separator::Tab),
            line if line.contains("::") => Some(Separator::Colons),
            line if line.contains(',') => Some(Separator::Comma),
            _ => None,
        }
    }

    fn split(self, line: &str) -> Result<Vec<String>, String> {
        match self {
            Separator::Tab => Ok(line.split('\t').map(|field| field.trim().to_owned()).collect()),
            Separator::Colons => Ok(line.split("::").map(|field| field.trim().to_owned()).collect()),
            Separator::Comma => split_quoted(line),
        }
    }
}

/// Fields between commas; a field in double quotes may have commas, and quotes written twice.
fn split_quoted(line: &str) -> Result<Vec<String>, String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is one from the start");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => field.push(letter),
        }
    }
    if quoted {
        return Err("a double quote is not closed".to_owned());
    }
    Ok(fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

/// The places of the columns.
struct Places {
    user: usize,
    item: usize,
    day: Option<usize>,
    count: Option<usize>,
}

impl Places {
    fn find(columns: &Columns, first: &[String]) -> Result<Places, String> {
        let place = |at: &ColumnAt| match at {
            ColumnAt::Place(place) => Ok(place - 1),
            ColumnAt::Name(name) => first
                .iter()
                .position(|field| field == name)
                .ok_or_else(|| format!("there is no column {name:?}, there are {}", first.join(", "))),
        };
        Ok(Places {
            user: place(&columns.user)?,
            item: place(&columns.item)?,
            day: columns.day.as_ref().map(place).transpose()?,
            count: columns.count.as_ref().map(place).transpose()?,
        })
    }
}

fn named(columns: &Columns) -> bool {
    let all = [Some(&columns.user), Some(&columns.item), columns.day.as_ref(), columns.count.as_ref()];
    columns.header || all.into_iter().flatten().any(|at| matches!(at, ColumnAt::Name(_)))
}

/// The field at `place`, where `what` should be.
fn at<'f>(fields: &'f [String], place: usize, what: &str) -> Result<&'f str, String> {
    match fields.get(place).map(String::as_str) {
        None => {
            Err(format!("it has {} columns and the {what} should be in column {}", fields.len(), place + 1))
        }
        Some("") => Err(format!("the {what} is empty")),
        Some(field) => Ok(field),
    }
}

/// The id of a user or an item.
fn id<'f>(fields: &'f [String], place: usize, what: &str) -> Result<&'f str, String> {
    let id = at(fields, place, what)?;
    if id.len() > 1_024 {
        return Err(format!("the {what} has {} bytes; at most 1024 are taken", id.len()));
    }
    Ok(id)
}

/// A line's day and its count in thousandths.
fn day_and_count(fields: &[String], places: &Places) -> Result<(u32, u64), String> {
    let day = places.day.map_or(Ok(0), |place| day(at(fields, place, "day")?))?;
    let count = places.count.map_or(Ok(1_000), |place| thousandths(at(fields, place, "count")?))?;
    Ok((day, count))
}

/// "2006-04-07 17:08", "20060407" or seconds since 1970 as 20060407.
fn day(text: &str) -> Result<u32, String> {
    let bad = || format!("the day {text:?} is neither a date like 2006-04-07 nor seconds since 1970");
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u64>().ok());
    let number = digits(text).flatten();
    let date = text.split([' ', 'T']).next().unwrap_or_default();
    let parts: Vec<Option<u64>> = date.split('-').map(|part| digits(part).flatten()).collect();
    let (year, month, day) = match (number, parts.as_slice()) {
        (Some(number), _) if text.len() == 8 => (number / 10_000, number / 100 % 100, number % 100),
        (Some(seconds), _) => civil(seconds / 86_400),
        (None, [Some(year), Some(month), Some(day)]) => (*year, *month, *day),
        _ => return Err(bad()),
    };
    if !(1..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(bad());
    }
    u32::try_from(year * 10_000 + month * 100 + day).map_err(|_| bad())
}

/// Year, month and day of a day counted from 1970 (Howard Hinnant's `civil_from_days`).
pub(super) fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era.saturating_mul(400) + u64::from(month <= 2), month, day)
}

/// "14.9" as 14,900.
fn thousandths(text: &str) -> Result<u64, String> {
    let bad = || format!("the count {text:?} is not a number of 0 or more with up to three decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let spare = decimals.get(3..).is_some_and(|rest| rest.bytes().any(|b| b != b'0'));
    if whole.is_empty() || !digits(whole) || !digits(decimals) || spare {
        return Err(bad());
    }
    let kept = decimals.get(..3).unwrap_or(decimals);
    let part: u64 = format!("{kept:0<3}").parse().map_err(|_| bad())?;
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    whole.checked_mul(1_000).and_then(|whole| whole.checked_add(part)).ok_or_else(bad)
}

/// Read facts from `text`; `file` names it in errors.
pub fn parse(text: impl BufRead, file: &Path, columns: &Columns) -> Result<Table> {
    let mut table = Table::default();
    let (mut users, mut items) = (Ids::default(), Ids::default());
    let mut sums: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    let mut format: Option<(Separator, Places)> = None;
    files::each_line(text, file, |content| {
        let first = format.is_none();
        if first {
            let separator = Separator::of(content)
                .ok_or_else(|| "it has no tab, no :: and no comma to separate columns".to_owned())?;
            let fields = separator.split(content)?;
            format = Some((separator, Places::find(columns, &fields)?));
            if named(columns) {
                return Ok(());
            }
        }
        let Some((separator, places)) = &format else { return Ok(()) };
        let fields = separator.split(content)?;
        let (day, amount) = match day_and_count(&fields, places) {
            Ok(found) => found,
            // Names of columns: there is a day or a count to tell them by.
            Err(_) if first && fields.len() > places.user.max(places.item) => return Ok(()),
            Err(what) => return Err(what),
        };
        let (user, item) = (id(&fields, places.user, "user")?, id(&fields, places.item, "item")?);
        table.lines += 1;
        let sum = sums.entry((day, users.of(user), items.of(item))).or_default();
        *sum = sum.checked_add(amount).ok_or("the counts' sum is beyond 64 bits")?;
        Ok(())
    })?;
    if sums.is_empty() {
        return Err(LabError::Empty { file: file.to_owned(), what: "facts" });
    }
    // Ids in the order of names.
    let (user_ranks, item_ranks) = (users.ranks(), items.ranks());
    table.thousandths = sums.values().any(|amount| amount % 1_000 != 0);
    let unit = if table.thousandths { 1 } else { 1_000 };
    let ranked = sums.into_iter().map(|((day, user, item), amount)| Fact {
        day,
        user: user_ranks[user as usize],
        item: item_ranks[item as usize],
        amount: amount / unit,
    });
    table.facts = ranked.collect();
    table.facts.sort_unstable_by_key(|fact| (fact.day, fact.user, fact.item));
    (table.users, table.items) = (users.sorted(), items.sorted());
    Ok(table)
}

/// Numbers for names.
#[derive(Default)]
struct Ids {
    ids: BTreeMap<String, u32>,
}

impl Ids {
    fn of(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = u32::try_from(self.ids.len()).expect("more than 2^32 names do not fit memory");
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// The rank of each id's name.
    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.ids.len()];
        for (rank, id) in (0..).zip(self.ids.values()) {
            ranks[*id as usize] = rank;
        }
        ranks
    }

    fn sorted(self) -> Vec<String> {
        self.ids.into_keys().collect()
    }
}

#[cfg(test)]
mod tests;
