//! What is shown: maps of the key space, charts, tables.

use super::cluster::Skew;
use super::findings::Findings;
use super::orders::Order;
use super::{Found, SERVERS};
use crate::lab::LabOptions;
use crate::lab::experiments::random;
use crate::lab::study::{
    Axis, BarGroup, Bars, Column, Exhibit, Line, Lines, Place, Raster, RasterAxis, Table, Unit, Value,
};

/// Offered loads, in what one server takes of growing keys.
const LOADS: [f64; 10] = [0.25, 0.5, 0.9, 1.5, 2.5, 4.0, 6.0, 9.0, 12.0, 15.0];

pub(super) fn all(findings: &Findings<'_>, options: &LabOptions) -> Vec<Exhibit> {
    let mut exhibits: Vec<Exhibit> = Order::ALL.iter().map(|order| map(findings, *order)).collect();
    exhibits.push(spread(findings));
    exhibits.push(against(findings, "calls of a range read", Unit::Count, |order| {
        findings.of(order).ranges.mean(|cost| cost.calls)
    }));
    let keys = "keys read for each event found";
    exhibits.push(against(findings, keys, Unit::Number, |order| findings.keys_an_event(order)));
    exhibits.push(speed_ups(findings));
    exhibits.push(waiting(findings));
    exhibits.push(skews(findings));
    exhibits.push(writes(findings));
    exhibits.push(reads(findings, options));
    exhibits
}

fn map(findings: &Findings<'_>, order: Order) -> Exhibit {
    Exhibit::Raster(Raster {
        title: format!("Where puts go: {} (counted)", order.name()),
        x: RasterAxis::new("time", "day 1", "day 100"),
        y: RasterAxis::new("key space, in equal slices", "first key", "last key"),
        counts: "puts".into(),
        cells: findings.of(order).map.clone(),
    })
}

fn spread(findings: &Findings<'_>) -> Exhibit {
    let group = |order: Order| {
        let found = findings.of(order);
        let values = [
            Skew::mean(&found.puts).effective,
            Skew::mean(&found.split).effective,
            Skew::total(&found.split).effective,
        ];
        BarGroup { name: order.name().into(), values: values.map(Some).to_vec() }
    };
    let bars = [
        "in a window, shards cut ahead",
        "in a window, shards split by size",
        "over all windows, shards split by size",
    ];
    Exhibit::Bars(Bars {
        title: format!("Servers that do the work, of {SERVERS} (counted)"),
        value: Axis::linear("effective servers, 1/Σp²", Unit::Number),
        bars: bars.map(str::to_owned).to_vec(),
        groups: Order::ALL.into_iter().map(group).collect(),
    })
}

/// C10: what a reader pays against how writes spread; a point an order.
fn against(findings: &Findings<'_>, what: &str, unit: Unit, cost: impl Fn(Order) -> f64) -> Exhibit {
    let line = |order: Order| Line {
        name: order.name().into(),
        points: vec![Place::new(findings.window(order).effective, cost(order))],
    };
    Exhibit::Lines(Lines {
        title: format!("The comparison: {what} against the spread of writes (counted)"),
        x: Axis::linear("effective servers of a window's puts", Unit::Number),
        y: Axis::logarithmic(what, unit),
        lines: Order::ALL.into_iter().map(line).collect(),
    })
}

fn speed_ups(findings: &Findings<'_>) -> Exhibit {
    let group = |order: Order| {
        let values = findings.of(order).modelled.speed_ups().map(Some);
        BarGroup { name: order.name().into(), values: values.to_vec() }
    };
    let bars = [
        "puts, as the layout makes them",
        "puts, if clients kept the list of epochs",
        "range reads, all of them",
    ];
    Exhibit::Bars(Bars {
        title: format!("Work of one server after the other over the makespan of {SERVERS} (modelled)"),
        value: Axis::linear("times as fast, modelled", Unit::Number),
        bars: bars.map(str::to_owned).to_vec(),
        groups: Order::ALL.into_iter().map(group).collect(),
    })
}

fn waiting(findings: &Findings<'_>) -> Exhibit {
    let one = findings.of(Order::Growing).modelled.service();
    let line = |order: Order| {
        let at = |load: f64| Place::new(load, findings.of(order).modelled.p99(one / load));
        Line { name: order.name().into(), points: LOADS.map(at).to_vec() }
    };
    Exhibit::Lines(Lines {
        title: "99th percentile of a put, waiting in line included (modelled)".into(),
        x: Axis::logarithmic("offered load, in what one server takes of growing keys", Unit::Number),
        y: Axis::logarithmic("time of a put, modelled", Unit::Nanos),
        lines: Order::ALL.into_iter().map(line).collect(),
    })
}

fn skews(findings: &Findings<'_>) -> Exhibit {
    let columns = [
        Column::text("order"),
        Column::text("shards"),
        Column::new("busiest server", Unit::Share),
        Column::new("busiest / mean", Unit::Number),
        Column::new("coefficient of variation", Unit::Number),
        Column::new("effective servers", Unit::Number),
        Column::new("busiest over all windows", Unit::Share),
        Column::new("effective over all windows", Unit::Number),
    ];
    let chance = Skew::by_chance(findings.each());
    let title = format!(
        "Puts of a window by server, in the mean (counted); chance alone leaves {chance:.1} effective servers"
    );
    let mut table = Table::new(&title, columns);
    for order in Order::ALL {
        let Found { puts, calls, split, shards, .. } = findings.of(order);
        for (windows, how) in [
            (puts, "cut ahead".to_owned()),
            (split, format!("{shards}, split by size")),
            (calls, "cut ahead, reads of puts counted".to_owned()),
        ] {
            let (mean, total) = (Skew::mean(windows), Skew::total(windows));
            table.row([
                Value::from(order.name()),
                Value::from(how),
                Value::from(mean.top),
                Value::from(mean.top_to_mean),
                Value::from(mean.variation),
                Value::from(mean.effective),
                Value::from(total.top),
                Value::from(total.effective),
            ]);
        }
    }
    Exhibit::Table(table)
}

fn writes(findings: &Findings<'_>) -> Exhibit {
    let columns = [
        Column::text("order"),
        Column::new("service of a put, measured", Unit::Nanos),
        Column::new("all, one server after the other, measured", Unit::Nanos),
        Column::new("makespan, modelled", Unit::Nanos),
        Column::new("makespan, list kept, modelled", Unit::Nanos),
        Column::new("a put, all on one store, measured", Unit::Nanos),
        Column::new("table bytes written / byte put", Unit::Number),
        Column::new("tables at the end", Unit::Bytes),
    ];
    let mut table = Table::new("Puts", columns);
    for order in Order::ALL {
        let found = findings.of(order);
        let modelled = &found.modelled;
        table.row([
            Value::from(order.name()),
            Value::from(modelled.service()),
            Value::from(modelled.work),
            Value::from(modelled.makespan),
            Value::from(modelled.kept_makespan),
            Value::from(found.single.nanos),
            Value::from(found.single.amplification),
            Value::from(found.single.table_bytes),
        ]);
    }
    Exhibit::Table(table)
}

fn reads(findings: &Findings<'_>, options: &LabOptions) -> Exhibit {
    let columns = [
        Column::text("order"),
        Column::new("calls of a range read", Unit::Number),
        Column::new("keys / event found", Unit::Number),
        Column::new("servers asked", Unit::Number),
        Column::new("found as the slides tell", Unit::Share),
        Column::new("a range read, one store, measured", Unit::Nanos),
        Column::new("its parts, one after the other, measured", Unit::Nanos),
        Column::new("its slowest part, modelled", Unit::Nanos),
        Column::new("makespan of all, modelled", Unit::Nanos),
        Column::new("one event, one store, measured", Unit::Nanos),
    ];
    let mut table = Table::new("Reads", columns);
    let mut random = random(options, &[11, 6]);
    for order in Order::ALL {
        let found = findings.of(order);
        let modelled = &found.modelled;
        table.row([
            Value::from(order.name()),
            Value::from(found.ranges.mean(|cost| cost.calls)),
            Value::from(findings.keys_an_event(order)),
            Value::from(findings.asked(order)),
            Value::from(found.as_told.map(|told| told as f64 / found.returned.max(1) as f64)),
            Value::from(found.ranges.interval(&mut random)),
            Value::from(modelled.read_work),
            Value::from(modelled.read_slowest),
            Value::from(modelled.reads_makespan),
            Value::from(found.gets.interval(&mut random)),
        ]);
    }
    Exhibit::Table(table)
}
