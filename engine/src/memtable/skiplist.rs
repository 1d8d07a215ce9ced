//! An ordered index as a skip list in the arena (candidate).
#![expect(
    unsafe_code,
    reason = "nodes lie in the arena and are linked by pointers"
)]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use esker_base::key::head;
use esker_base::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use esker_base::{InternalKey, Kind};

use super::arena::{Arena, ArenaWriter, Entry, prefetch};

const HEIGHT_MAX: usize = 12;

#[derive(Debug)]
struct Link {
    head: AtomicU64,
    next: AtomicPtr<Node>,
}

#[repr(C)]
#[derive(Debug)]
struct Node {
    head: u64,
    entry: *const u8,
    back: AtomicPtr<Node>,
}

unsafe fn link<'a>(node: *const Node, level: usize) -> &'a Link {
    unsafe { &*node.add(1).cast::<Link>().add(level) }
}

#[derive(Debug)]
pub(super) struct IndexWriter {
    arena: Arc<Arena>,
    entries: ArenaWriter,
    nodes: ArenaWriter,
    random: u32,
}

impl IndexWriter {
    pub(super) fn new() -> (Arc<Arena>, IndexWriter) {
        let arena = Arc::new(Arena::new());
        let writer = IndexWriter {
            entries: ArenaWriter::new(Arc::clone(&arena)),
            nodes: ArenaWriter::new(Arc::clone(&arena)),
            arena: Arc::clone(&arena),
            random: 0x9E37_79B9,
        };
        (arena, writer)
    }

    fn node(&mut self, height: usize, head: u64, entry: *const u8) -> *mut Node {
        let size = size_of::<Node>() + height * size_of::<Link>();
        let node = self
            .nodes
            .allocate(Layout::from_size_align(size, 16).unwrap())
            .cast::<Node>();
        unsafe {
            node.write(Node {
                head,
                entry,
                back: AtomicPtr::new(ptr::null_mut()),
            });
            for level in 0..height {
                node.add(1).cast::<Link>().add(level).write(Link {
                    head: AtomicU64::new(u64::MAX),
                    next: AtomicPtr::new(ptr::null_mut()),
                });
            }
        }
        node.as_ptr()
    }

    pub(super) fn insert(&mut self, index: &Index, key: InternalKey<'_>, kind: Kind, value: &[u8]) {
        assert!(Arc::ptr_eq(&self.arena, &index.arena));
        let entry = unsafe { Entry::write(&mut self.entries, key, kind, value) };
        let mut top = index.top.load(Ordering::Relaxed);
        if top.is_null() {
            top = self.node(HEIGHT_MAX, 0, ptr::null());
            for tail in &index.tails {
                tail.store(top, Ordering::Relaxed);
            }
            index.top.store(top, Ordering::Release);
        }
        let mut height = 1;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let mut r = self.random;
        while height < HEIGHT_MAX && r & 3 == 0 {
            height += 1;
            r >>= 2;
        }
        let head = head(key.user);
        let node = self.node(height, head, entry.as_ptr().as_ptr());
        let mut before = [top; HEIGHT_MAX];
        let tail = index.tails[0].load(Ordering::Relaxed);
        if tail == top || unsafe { compare(tail, head, key) }.is_gt() {
            for (level, before) in before.iter_mut().enumerate() {
                *before = index.tails[level].load(Ordering::Relaxed);
            }
        } else {
            index.find(head, key, Some(&mut before));
        }
        let levels = index.height.load(Ordering::Relaxed).max(height);
        index.height.store(levels, Ordering::Relaxed);
        for level in 0..height {
            let (from, to) = unsafe { (link(before[level], level), link(node, level)) };
            let after = from.next.load(Ordering::Relaxed);
            to.head
                .store(from.head.load(Ordering::Relaxed), Ordering::Relaxed);
            to.next.store(after, Ordering::Relaxed);
            if level == 0 {
                unsafe { (*node).back.store(before[0], Ordering::Relaxed) };
            }
            from.next.store(node, Ordering::Release);
            from.head.store(head, Ordering::Release);
            if after.is_null() {
                index.tails[level].store(node, Ordering::Relaxed);
            } else if level == 0 {
                unsafe { (*after).back.store(node, Ordering::Release) };
            }
        }
    }
}

unsafe fn compare(node: *const Node, head: u64, key: InternalKey<'_>) -> std::cmp::Ordering {
    unsafe {
        let node = &*node;
        head.cmp(&node.head).then_with(|| {
            Entry::from_ptr(NonNull::new_unchecked(node.entry.cast_mut())).compare(key)
        })
    }
}

#[derive(Debug)]
pub(super) struct Index {
    arena: Arc<Arena>,
    top: AtomicPtr<Node>,
    height: AtomicUsize,
    tails: [AtomicPtr<Node>; HEIGHT_MAX],
    _unused: AtomicU32,
}

impl Index {
    pub(super) fn new(arena: Arc<Arena>) -> Self {
        Index {
            arena,
            top: AtomicPtr::default(),
            height: AtomicUsize::new(1),
            tails: Default::default(),
            _unused: AtomicU32::new(0),
        }
    }

    /// The first node at or after `key`; the nodes before it go to `before`.
    fn find(
        &self,
        head: u64,
        key: InternalKey<'_>,
        mut before: Option<&mut [*mut Node; HEIGHT_MAX]>,
    ) -> *mut Node {
        let mut at = self.top.load(Ordering::Acquire);
        if at.is_null() {
            return at;
        }
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        let mut known: *mut Node = ptr::null_mut();
        loop {
            let step = unsafe { link(at, level) };
            let next = step.next.load(Ordering::Acquire);
            prefetch(next);
            let after = if next.is_null() || next == known {
                true
            } else if step.head.load(Ordering::Acquire) > head {
                true
            } else {
                unsafe { compare(next, head, key) }.is_le()
            };
            if after {
                known = next;
                if let Some(before) = &mut before {
                    before[level] = at;
                }
                if level == 0 {
                    return next;
                }
                level -= 1;
            } else {
                at = next;
            }
        }
    }

    pub(super) fn seek(&self, key: InternalKey<'_>) -> Position<'_> {
        let node = self.find(head(key.user), key, None);
        Position {
            index: self,
            node,
            life: PhantomData,
        }
    }

    pub(super) fn first(&self) -> Position<'_> {
        let top = self.top.load(Ordering::Acquire);
        let node = if top.is_null() {
            top
        } else {
            unsafe { link(top, 0) }.next.load(Ordering::Acquire)
        };
        Position {
            index: self,
            node,
            life: PhantomData,
        }
    }

    pub(super) fn last(&self) -> Position<'_> {
        let mut at = self.top.load(Ordering::Acquire);
        let top = at;
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        if !at.is_null() {
            loop {
                let next = unsafe { link(at, level) }.next.load(Ordering::Acquire);
                if !next.is_null() {
                    at = next;
                } else if level == 0 {
                    break;
                } else {
                    level -= 1;
                }
            }
        }
        Position {
            index: self,
            node: if at == top { ptr::null_mut() } else { at },
            life: PhantomData,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    index: *const Index,
    node: *mut Node,
    life: PhantomData<&'a Index>,
}

impl<'a> Position<'a> {
    #[inline]
    pub(super) fn entry(self) -> Option<Entry<'a>> {
        if self.node.is_null() {
            return None;
        }
        unsafe {
            Some(Entry::from_ptr(NonNull::new_unchecked(
                (*self.node).entry.cast_mut(),
            )))
        }
    }

    pub(super) fn next(self) -> Self {
        let node = unsafe { link(self.node, 0) }.next.load(Ordering::Acquire);
        if !node.is_null() {
            unsafe {
                prefetch(link(node, 0).next.load(Ordering::Acquire));
            }
        }
        Position { node, ..self }
    }

    pub(super) fn prev(self) -> Self {
        let index = unsafe { &*self.index };
        if self.node.is_null() {
            return index.last();
        }
        let node = unsafe { &*self.node }.back.load(Ordering::Acquire);
        let node = if node == index.top.load(Ordering::Relaxed) {
            ptr::null_mut()
        } else {
            node
        };
        Position { node, ..self }
    }
}

#[derive(Debug)]
pub(super) struct Pinned {
    arena: Arc<Arena>,
    position: Option<Position<'static>>,
}

unsafe impl Send for Pinned {}

impl Pinned {
    pub(super) fn nowhere(arena: Arc<Arena>) -> Self {
        Pinned {
            arena,
            position: None,
        }
    }
    pub(super) fn set(
        &mut self,
        index: &Index,
        find: impl for<'a> FnOnce(&'a Index) -> Position<'a>,
    ) {
        assert!(Arc::ptr_eq(&self.arena, &index.arena));
        let found = find(index);
        self.position = Some(Position {
            index: found.index,
            node: found.node,
            life: PhantomData,
        });
    }
    #[inline]
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        self.position?.entry()
    }
    #[inline]
    pub(super) fn next(&mut self) {
        self.position = self.position.map(Position::next);
    }
    #[inline]
    pub(super) fn prev(&mut self) {
        self.position = self.position.map(Position::prev);
    }
}
