//! Reopening after a kill: another process fills a database, lets it settle, and writes as much as a log
//! holds before its memtable is flushed; then it is killed. What it had acknowledged has to be there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use super::main_sequence::expect;
use super::{Bench, VALUE_BYTES, emit, group, put_rows};
use crate::keys::{Permutation, key};
use crate::store::{Reader, Result, Settings, Store};
use crate::values::{Values, read_all};

/// The part that is killed.
pub(super) const WRITES: &str = "killed-writes";
/// What it says when it has written everything.
const WRITTEN: &str = "written";
/// Most rows that the log alone holds: with what an engine adds to each, below a memtable's 64 MiB.
const LOG_ROWS: u64 = 250_000;

/// The first rows of the order, in their second version, are in the log alone.
fn log_rows(bench: &Bench) -> u64 {
    (bench.rows / 20).min(LOG_ROWS)
}

fn order(bench: &Bench) -> Permutation {
    Permutation::new(bench.rows, 170)
}

/// Start the writer, kill it, and open what it left.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let mut writer = bench.part(WRITES)?.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn()?;
    let written = hear(&mut writer);
    // SIGKILL, whatever it said.
    writer.kill()?;
    writer.wait()?;
    expect(written? == WRITTEN, || "the process to be killed ended before it".to_owned())?;

    let (values, order) = (Values::new(VALUE_BYTES), order(bench));
    let measure = bench.measure("reopen after a kill")?;
    let store = S::open(&bench.dir, Settings::default())?;
    let found = store.reader()?.get(&key(order.at(bench.rows - 1)), |value| {
        std::hint::black_box(read_all(value));
    })?;
    let figure = measure.done(1)?;
    expect(found || !S::SURVIVES, || "a row is gone after a kill".to_owned())?;

    let mut reader = store.reader()?;
    let mut lost = 0;
    for at in 0..bench.rows {
        let (row, version) = (order.at(at), u64::from(at < log_rows(bench)));
        let mut right = S::NULL;
        reader.get(&key(row), |value| right |= value == values.of(row, version))?;
        lost += u64::from(!right);
    }
    expect(lost == 0 || !S::SURVIVES, || format!("a kill took {lost} acknowledged rows"))?;
    emit(&figure.with("lost_rows", lost as f64))?;
    drop(reader);
    store.close()
}

/// The first line that `writer` prints.
fn hear(writer: &mut Child) -> Result<String> {
    let output = writer.stdout.take().ok_or("the writer has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The part that is killed: it waits for it.
pub(super) fn writes<S: Store>(bench: &Bench) -> Result<()> {
    let (values, order) = (Values::new(VALUE_BYTES), order(bench));
    let store = S::open(&bench.dir, Settings::default())?;
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;
    put_rows(&store, &values, 1, (0..log_rows(bench)).map(|at| order.at(at)), group::<S>())?;
    let mut output = std::io::stdout();
    writeln!(output, "{WRITTEN}")?;
    output.flush()?;
    // Until the kill; if the parent is gone, so is the other end.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
