//! Four ways to lay out mailboxes: wide or narrow, by message or by day and message.

use esker_layouts::kv::{Costed, OrderedKv, ScanOptions};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::{Space, pack, unpack};
use esker_layouts::wide::{History, Query, RowChange, WideTable};
use esker_layouts::{Error, OpCost, Result};

use crate::lab::mail::Message;
use crate::lab::{self, experiments::samples::failed};

/// How mailboxes are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// As the slides have it: a row a user, a column a message, the time that of the cell.
    WideById,
    /// A row a user, a column a day and message.
    WideByDay,
    /// A row a user and message.
    NarrowById,
    /// A row a user, day and message.
    NarrowByDay,
}

impl Form {
    pub(super) const ALL: [Form; 4] =
        [Form::WideById, Form::WideByDay, Form::NarrowById, Form::NarrowByDay];

    pub(super) fn name(self) -> &'static str {
        match self {
            Form::WideById => "wide, by message",
            Form::WideByDay => "wide, by day and message",
            Form::NarrowById => "narrow, by message",
            Form::NarrowByDay => "narrow, by day and message",
        }
    }

    /// Whether a day's messages lie together.
    pub(super) fn by_day(self) -> bool {
        matches!(self, Form::WideByDay | Form::NarrowByDay)
    }

    pub(super) fn wide(self) -> bool {
        matches!(self, Form::WideById | Form::WideByDay)
    }
}

/// Mailboxes. Messages are answered by their ids.
pub(super) trait Mail {
    /// Put all of `messages` in one transaction.
    fn load(&self, messages: &[&Message]) -> Result<()>;

    /// Everything of a user.
    fn user(&self, mailbox: u32) -> Result<Costed<Vec<String>>>;

    /// Everything of a user and a day.
    fn day(&self, mailbox: u32, day: u32) -> Result<Costed<Vec<String>>>;

    /// Whether this message is there.
    fn one(&self, message: &Message) -> Result<Costed<bool>>;

    /// Write `messages`, all of one mailbox, and their number into its count, all or nothing.
    fn change(&self, messages: &[&Message]) -> Result<OpCost>;

    /// The same one by one, as without transactions over several rows; `None` where a row is all it takes.
    fn change_singly(&self, messages: &[&Message]) -> Result<Option<OpCost>>;
}

/// Opens mailboxes; tests put wrong ones in their place.
pub(super) trait OpenMail<K> {
    /// Do `work` with the mailboxes in `store`, which are made if there are none.
    fn with(
        &self,
        store: &K,
        form: Form,
        work: &mut dyn FnMut(&dyn Mail) -> lab::Result<()>,
    ) -> lab::Result<()>;
}

pub(super) struct RealMail;

/// The family of the messages, and of the counts.
const MAIL: &str = "mail";
const COUNTS: &str = "counts";
const COUNT: &[u8] = b"changed";

impl<K: OrderedKv> OpenMail<K> for RealMail {
    fn with(
        &self,
        store: &K,
        form: Form,
        work: &mut dyn FnMut(&dyn Mail) -> lab::Result<()>,
    ) -> lab::Result<()> {
        let (mail, counts) = (Space::new(&("mail",)), Space::new(&("counts",)));
        let failed = failed("open the mailboxes");
        let wide = |store| WideTable::open(store, &mail, &[MAIL, COUNTS]);
        match form {
            Form::WideById => {
                let table = wide(store).map_err(&failed)?;
                let history = History::declare(&table, MAIL, 1).map_err(&failed)?;
                work(&Wide { store, table: &table, history: Some(history) })
            }
            Form::WideByDay => {
                let table = wide(store).map_err(&failed)?;
                work(&Wide { store, table: &table, history: None })
            }
            Form::NarrowById => {
                let table = TallTable::open(store, &mail).map_err(&failed)?;
                let counts = TallTable::open(store, &counts).map_err(&failed)?;
                work(&NarrowById { store, table, counts })
            }
            Form::NarrowByDay => {
                let table = TallTable::open(store, &mail).map_err(&failed)?;
                let counts = TallTable::open(store, &counts).map_err(&failed)?;
                work(&NarrowByDay { store, table, counts })
            }
        }
    }
}

fn row(mailbox: u32) -> Vec<u8> {
    pack(&(mailbox,))
}

fn count(messages: &[&Message]) -> [u8; 8] {
    (messages.len() as u64).to_be_bytes()
}

/// The day of a moment, for messages that are found by their time.
fn same_day(seconds: i64, day: u32) -> bool {
    let (year, month, of_month) = crate::lab::interest::civil(seconds.unsigned_abs() / 86_400);
    year * 10_000 + month * 100 + of_month == u64::from(day)
}

struct Wide<'t, 'k, S> {
    store: &'k S,
    table: &'t WideTable<&'k S>,
    /// Keeps the versions where messages are columns with a time.
    history: Option<History>,
}

impl<S: OrderedKv> Wide<'_, '_, S> {
    fn put(&self, change: RowChange, message: &Message) -> RowChange {
        let text = message.text.as_bytes();
        match &self.history {
            Some(history) => history.put(change, message.id.as_bytes(), message.seconds, text),
            None => change.put(MAIL, &pack(&(message.day, message.id.as_str())), text),
        }
    }

    /// The messages of a row that `wanted` wants by time; `None` where they have no times.
    fn versions(&self, mailbox: u32, wanted: impl Fn(i64) -> bool) -> Result<Option<Costed<Vec<String>>>> {
        let Some(history) = &self.history else { return Ok(None) };
        let view = self.table.view()?;
        let columns = history.row(&view, &row(mailbox))?.into_iter();
        let columns = columns.filter(|(_, versions)| versions.iter().any(|version| wanted(version.time)));
        let value = columns.map(|(id, _)| String::from_utf8_lossy(&id).into_owned()).collect();
        Ok(Some(Costed { value, cost: view.cost() }))
    }

    fn columns(&self, query: &Query) -> Result<Costed<Vec<String>>> {
        let view = self.table.view()?;
        let cells = view.page(query)?.cells.into_iter();
        let ids =
            cells.map(|cell| unpack::<(u32, String)>(&cell.column).map(|(_, id)| id).map_err(Error::Key));
        Ok(Costed { value: ids.collect::<Result<_>>()?, cost: view.cost() })
    }
}

impl<S: OrderedKv> Mail for Wide<'_, '_, S> {
    fn load(&self, messages: &[&Message]) -> Result<()> {
        let done = self.store.update(|tx| {
            messages.iter().try_for_each(|message| {
                self.table.apply_in(tx, &row(message.mailbox), &self.put(RowChange::new(), message))
            })
        });
        done.map(|_| ())
    }

    fn user(&self, mailbox: u32) -> Result<Costed<Vec<String>>> {
        if let Some(found) = self.versions(mailbox, |_| true)? {
            return Ok(found);
        }
        self.columns(&Query::row(&row(mailbox)).family(MAIL))
    }

    fn day(&self, mailbox: u32, day: u32) -> Result<Costed<Vec<String>>> {
        if let Some(found) = self.versions(mailbox, |seconds| same_day(seconds, day))? {
            return Ok(found);
        }
        let columns = Space::root().under(&(day,));
        self.columns(&Query::row(&row(mailbox)).family(MAIL).columns(columns))
    }

    fn one(&self, message: &Message) -> Result<Costed<bool>> {
        let row = row(message.mailbox);
        let view = self.table.view()?;
        let value = match &self.history {
            Some(history) => history.newest(&view, &row, message.id.as_bytes())?.is_some(),
            None => view.get(&row, MAIL, &pack(&(message.day, message.id.as_str())))?.is_some(),
        };
        Ok(Costed { value, cost: view.cost() })
    }

    fn change(&self, messages: &[&Message]) -> Result<OpCost> {
        let Some(first) = messages.first() else { return Ok(OpCost::default()) };
        let change = messages.iter().fold(RowChange::new(), |change, message| self.put(change, message));
        self.table.apply(&row(first.mailbox), &change.put(COUNTS, COUNT, &count(messages)))
    }

    fn change_singly(&self, _messages: &[&Message]) -> Result<Option<OpCost>> {
        Ok(None)
    }
}

/// What both narrow forms do alike; they differ in a row's `key`, and in its `value`.
macro_rules! narrow_writes {
    () => {
        fn load(&self, messages: &[&Message]) -> Result<()> {
            let put = |tx: &mut S::Tx<'_>, message: &Message| {
                self.table.put_in(tx, &Self::key(message), &Self::value(message))
            };
            self.store.update(|tx| messages.iter().try_for_each(|message| put(tx, message))).map(|_| ())
        }

        fn one(&self, message: &Message) -> Result<Costed<bool>> {
            let view = self.table.view()?;
            Ok(Costed { value: view.get(&Self::key(message))?.is_some(), cost: view.cost() })
        }

        fn change(&self, messages: &[&Message]) -> Result<OpCost> {
            let done = self.store.update(|tx| {
                for message in messages {
                    self.table.put_in(tx, &Self::key(message), &Self::value(message))?;
                }
                messages
                    .first()
                    .map_or(Ok(()), |first| self.counts.put_in(tx, &(first.mailbox,), &count(messages)))
            });
            Ok(done?.cost)
        }

        fn change_singly(&self, messages: &[&Message]) -> Result<Option<OpCost>> {
            let mut cost = OpCost::default();
            for message in messages {
                cost.add(&self.table.put(&Self::key(message), &Self::value(message))?);
            }
            if let Some(first) = messages.first() {
                cost.add(&self.counts.put(&(first.mailbox,), &count(messages))?);
            }
            Ok(Some(cost))
        }
    };
}

struct NarrowById<'k, S> {
    store: &'k S,
    table: TallTable<&'k S, (u32, String)>,
    counts: TallTable<&'k S, (u32,)>,
}

impl<S: OrderedKv> NarrowById<'_, S> {
    fn key(message: &Message) -> (u32, String) {
        (message.mailbox, message.id.clone())
    }

    /// The day, which is not in the key, and the text.
    fn value(message: &Message) -> Vec<u8> {
        [&message.day.to_be_bytes(), message.text.as_bytes()].concat()
    }

    fn found(&self, mailbox: u32, day: Option<u32>) -> Result<Costed<Vec<String>>> {
        let view = self.table.view()?;
        let wanted = day.map(u32::to_be_bytes);
        let mut value = Vec::new();
        for row in view.rows(self.table.keys().under(&(mailbox,)), ScanOptions::new())? {
            let ((_, id), stored) = row?;
            if wanted.is_none_or(|day| stored.starts_with(&day)) {
                value.push(id);
            }
        }
        Ok(Costed { value, cost: view.cost() })
    }
}

impl<S: OrderedKv> Mail for NarrowById<'_, S> {
    narrow_writes!();

    fn user(&self, mailbox: u32) -> Result<Costed<Vec<String>>> {
        self.found(mailbox, None)
    }

    fn day(&self, mailbox: u32, day: u32) -> Result<Costed<Vec<String>>> {
        self.found(mailbox, Some(day))
    }
}

struct NarrowByDay<'k, S> {
    store: &'k S,
    table: TallTable<&'k S, (u32, u32, String)>,
    counts: TallTable<&'k S, (u32,)>,
}

impl<S: OrderedKv> NarrowByDay<'_, S> {
    fn key(message: &Message) -> (u32, u32, String) {
        (message.mailbox, message.day, message.id.clone())
    }

    fn value(message: &Message) -> &[u8] {
        message.text.as_bytes()
    }

    fn found(&self, range: esker_layouts::kv::KeyRange) -> Result<Costed<Vec<String>>> {
        let view = self.table.view()?;
        let ids = view.rows(range, ScanOptions::new())?.map(|row| row.map(|((_, _, id), _)| id));
        Ok(Costed { value: ids.collect::<Result<_>>()?, cost: view.cost() })
    }
}

impl<S: OrderedKv> Mail for NarrowByDay<'_, S> {
    narrow_writes!();

    fn user(&self, mailbox: u32) -> Result<Costed<Vec<String>>> {
        self.found(self.table.keys().under(&(mailbox,)))
    }

    fn day(&self, mailbox: u32, day: u32) -> Result<Costed<Vec<String>>> {
        self.found(self.table.keys().under(&(mailbox, day)))
    }
}
