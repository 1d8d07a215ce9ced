//! Which call fails, and how, as it is named in a message and asked for again.

use std::fmt;
use std::str::FromStr;

use esker_vfs::fault::{Cause, Effect, Fault, Operation};
use esker_vfs::mem::SyncFailure;

/// For how long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// For one call.
    Once,
    /// From then on, for calls of that operation.
    Operation,
    /// From then on, for every call; if it is space that lacks, for those that take some.
    Disk,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What the system says.
    pub cause: Cause,
    /// How much of the call happens.
    pub effect: Effect,
    /// For how long.
    pub span: Span,
    /// What a failed sync does to the cache, and which sectors reach the disk all the same.
    pub sync: (SyncFailure, u64),
}

/// A call of a history, and how it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAt {
    /// Its number among the calls of the history.
    pub call: u64,
    /// What it does.
    pub operation: Operation,
    /// How it fails.
    pub kind: Kind,
}

/// Whether a full disk has an effect on the operation.
pub fn takes_space(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Create
            | Operation::Write
            | Operation::Allocate
            | Operation::Rename
            | Operation::HardLink
            | Operation::CreateDir
    )
}

fn is_space(cause: Cause) -> bool {
    matches!(cause, Cause::NoSpace | Cause::Quota | Cause::FileTooLarge)
}

/// Every kind of failure that `operation` may have.
pub fn kinds(operation: Operation) -> Vec<Kind> {
    let causes: &[Cause] = match operation {
        Operation::Write | Operation::Allocate => {
            &[Cause::Device, Cause::NoSpace, Cause::Quota, Cause::FileTooLarge, Cause::ReadOnly]
        }
        Operation::Create => {
            &[Cause::Device, Cause::NoSpace, Cause::Quota, Cause::ReadOnly, Cause::Descriptors]
        }
        Operation::Open
        | Operation::OpenWritable
        | Operation::Map
        | Operation::List
        | Operation::OpenDir
        | Operation::Lock => &[Cause::Device, Cause::Descriptors],
        Operation::Rename | Operation::HardLink | Operation::CreateDir => {
            &[Cause::Device, Cause::NoSpace, Cause::Quota, Cause::ReadOnly]
        }
        Operation::Remove | Operation::RemoveDir | Operation::SetLen => &[Cause::Device, Cause::ReadOnly],
        // Space that was promised when the bytes were written may turn out not to be there.
        Operation::SyncData | Operation::Sync | Operation::SyncDir => &[Cause::Device, Cause::NoSpace],
        _ => &[Cause::Device],
    };
    let effects: &[Effect] = match operation {
        Operation::Write => &[Effect::Before, Effect::After, Effect::Partial(1), Effect::Partial(520)],
        _ if operation.changes() => &[Effect::Before, Effect::After],
        _ => &[Effect::Before],
    };
    let syncs: &[(SyncFailure, u64)] = if operation.syncs() && operation != Operation::SyncDir {
        &[
            (SyncFailure::CacheKept, 0),
            (SyncFailure::CacheReverted, 0),
            (SyncFailure::CacheKept, 7),
            (SyncFailure::CacheReverted, 8),
        ]
    } else {
        &[(SyncFailure::CacheKept, 0)]
    };
    let mut kinds = Vec::new();
    for span in [Span::Once, Span::Operation, Span::Disk] {
        for &cause in causes {
            for &effect in effects {
                let syncs = if effect == Effect::After { &syncs[..1] } else { syncs };
                kinds.extend(syncs.iter().map(|&sync| Kind { cause, effect, span, sync }));
            }
        }
    }
    kinds
}

impl FaultAt {
    /// The fault, to be planned.
    pub fn plan(&self) -> Fault {
        let (from, operation, kind) = (self.call, self.operation, self.kind);
        let fault = match kind.span {
            Span::Once => Fault::at(from),
            Span::Operation => {
                Fault::when(move |call| call.number >= from && call.operation == operation).sticky()
            }
            Span::Disk => Fault::when(move |call| {
                call.number >= from
                    && (call.number == from || !is_space(kind.cause) || takes_space(call.operation))
            })
            .sticky(),
        };
        fault.cause(kind.cause).effect(kind.effect).sync_failure(kind.sync.0, kind.sync.1)
    }
}

impl fmt::Display for FaultAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind { cause, effect, span, sync } = self.kind;
        let effect = match effect {
            Effect::Partial(bytes) => format!("Partial{bytes}"),
            other => format!("{other:?}"),
        };
        let (call, operation) = (self.call, self.operation);
        write!(f, "{call}:{operation:?}:{cause:?}:{effect}:{span:?}:{:?}:{}", sync.0, sync.1)
    }
}

/// The one of `all` that is shown as `name`.
fn named<T: fmt::Debug>(all: impl IntoIterator<Item = T>, name: &str) -> Result<T, String> {
    all.into_iter().find(|it| format!("{it:?}") == name).ok_or_else(|| format!("there is no {name:?}"))
}

impl FromStr for FaultAt {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultAt, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [call, operation, cause, effect, span, sync, seed] = parts[..] else {
            return Err(format!("{text:?} is no CALL:OPERATION:CAUSE:EFFECT:SPAN:SYNC:SEED"));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        let effect = match effect.strip_prefix("Partial") {
            Some(bytes) => Effect::Partial(bytes.parse().map_err(|_| format!("{bytes:?} is no length"))?),
            None => named([Effect::Before, Effect::After], effect)?,
        };
        let kind = Kind {
            cause: named(Cause::ALL, cause)?,
            effect,
            span: named([Span::Once, Span::Operation, Span::Disk], span)?,
            sync: (named([SyncFailure::CacheKept, SyncFailure::CacheReverted], sync)?, number(seed)?),
        };
        Ok(FaultAt { call: number(call)?, operation: named(Operation::ALL, operation)?, kind })
    }
}
