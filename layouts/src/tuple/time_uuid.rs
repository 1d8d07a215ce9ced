//! Ids that sort by the time at which they were made.

use super::code;
use super::decode::{Fields, KeyError, UnpackField};
use super::encode::{PackField, Uuid};

/// 100-nanosecond steps from 1582-10-15 to 1970.
const UNIX_TICKS: u64 = 0x01B2_1DD2_1381_4000;

/// A version-1 UUID (RFC 9562) as a field that sorts by its time, then clock sequence, then node.
///
/// A version-1 UUID's own bytes begin with the fastest part of its time, so they do not sort by it. Here the
/// sixty bits of time come first, without the version; nothing is lost.
///
/// ```
/// use esker_layouts::tuple::{TimeUuid, Uuid, pack};
/// let node = [2, 0, 0, 0, 0, 1];
/// let early = TimeUuid::from_parts(0x0000_0000_ffff_ffff, 0, node).expect("in range");
/// let late = TimeUuid::from_parts(0x0000_0001_0000_0000, 0, node).expect("in range");
/// assert!(early.uuid() > late.uuid(), "the UUID's own bytes");
/// assert!(pack(&(early,)) < pack(&(late,)));
/// assert_eq!(TimeUuid::new(early.uuid()), Some(early));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeUuid {
    /// Sixty bits.
    ticks: u64,
    /// Fourteen bits.
    clock: u16,
    node: [u8; 6],
}

impl TimeUuid {
    /// The version-1 UUID `uuid`; `None` for any other.
    pub fn new(uuid: Uuid) -> Option<TimeUuid> {
        let [l0, l1, l2, l3, m0, m1, h0, h1, c0, c1, node @ ..] = uuid.0;
        let ticks = u64::from_be_bytes([h0 & 0x0F, h1, m0, m1, l0, l1, l2, l3]);
        let clock = u16::from_be_bytes([c0 & 0x3F, c1]);
        (h0 >> 4 == 1 && c0 >> 6 == 0b10).then_some(TimeUuid { ticks, clock, node })
    }

    /// The id of these parts: 100-nanosecond steps since 1582-10-15 (sixty bits), clock sequence (fourteen
    /// bits), node. `None` if one is too large. With clock and node 0 it is the least id of its time.
    pub fn from_parts(ticks: u64, clock: u16, node: [u8; 6]) -> Option<TimeUuid> {
        (ticks >> 60 == 0 && clock >> 14 == 0).then_some(TimeUuid { ticks, clock, node })
    }

    /// The UUID.
    pub fn uuid(self) -> Uuid {
        let [h0, h1, m0, m1, l0, l1, l2, l3] = self.ticks.to_be_bytes();
        let [c0, c1] = self.clock.to_be_bytes();
        let [n0, n1, n2, n3, n4, n5] = self.node;
        Uuid([l0, l1, l2, l3, m0, m1, h0 | 0x10, h1, c0 | 0x80, c1, n0, n1, n2, n3, n4, n5])
    }

    /// The time in milliseconds since 1970 began, rounded down; negative before.
    pub fn unix_ms(self) -> i64 {
        (self.ticks.cast_signed() - UNIX_TICKS.cast_signed()).div_euclid(10_000)
    }

    fn to_bytes(self) -> [u8; 16] {
        let (t, [c0, c1]) = (self.ticks.to_be_bytes(), self.clock.to_be_bytes());
        let [n0, n1, n2, n3, n4, n5] = self.node;
        [t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], c0, c1, n0, n1, n2, n3, n4, n5]
    }

    /// The id with these bytes, time first; `None` if a part is too large.
    pub(super) fn from_bytes(bytes: [u8; 16]) -> Option<TimeUuid> {
        let [t0, t1, t2, t3, t4, t5, t6, t7, c0, c1, node @ ..] = bytes;
        let ticks = u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        TimeUuid::from_parts(ticks, u16::from_be_bytes([c0, c1]), node)
    }
}

impl PackField for TimeUuid {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(code::TIME_UUID);
        out.extend_from_slice(&self.to_bytes());
    }
}

impl UnpackField for TimeUuid {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.time_uuid()
    }
}

/// Makes version-7 UUIDs (RFC 9562), which sort by time as they are: 48 bits of milliseconds, a counter of 12
/// bits that keeps ids of one millisecond in order, 62 random bits.
///
/// Clock and randomness come from the caller, so a test can give both. Ids of one generator ascend strictly,
/// also while the clock stands still or goes back: then the last time is kept, and a full counter moves it on
/// by a millisecond.
///
/// ```
/// use esker_layouts::tuple::TimeIds;
/// let mut ids = TimeIds::new();
/// let first = ids.next(1_419_445_800_000, 12345);
/// let second = ids.next(1_419_445_799_000, 99); // the clock went back
/// assert!(first < second);
/// assert_eq!(first.to_string().get(..15), Some("014a7d90-0c40-7"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TimeIds {
    ms: u64,
    counter: u16,
    started: bool,
}

impl TimeIds {
    const COUNTER_MAX: u16 = 0x0FFF;
    const MS_MAX: u64 = (1 << 48) - 1;

    /// A generator that has made nothing.
    pub fn new() -> TimeIds {
        TimeIds::default()
    }

    /// The next id: `now_ms` is the clock's time in milliseconds since 1970 (up to the year 10889, after which
    /// ids repeat their time), `random` fresh random bits.
    pub fn next(&mut self, now_ms: u64, random: u128) -> Uuid {
        let now = now_ms.min(Self::MS_MAX);
        let [r0, r1, low @ ..] = random.to_be_bytes();
        // Half the counter's room stays free for ids of the same millisecond.
        let fresh = u16::from_be_bytes([r0, r1]) & (Self::COUNTER_MAX >> 1);
        if !self.started || now > self.ms {
            (self.ms, self.counter) = (now, fresh);
        } else if self.counter < Self::COUNTER_MAX {
            self.counter += 1;
        } else {
            (self.ms, self.counter) = ((self.ms + 1).min(Self::MS_MAX), fresh);
        }
        self.started = true;
        let [_, _, m0, m1, m2, m3, m4, m5] = self.ms.to_be_bytes();
        let [c0, c1] = self.counter.to_be_bytes();
        let [.., v, r2, r3, r4, r5, r6, r7, r8] = low;
        Uuid([m0, m1, m2, m3, m4, m5, c0 | 0x70, c1, v & 0x3F | 0x80, r2, r3, r4, r5, r6, r7, r8])
    }
}
