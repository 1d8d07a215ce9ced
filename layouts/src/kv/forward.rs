//! References to stores as stores, and to what reads as what reads: every call is handed on as it is, or a default of
//! the traits would make less of it.

use std::sync::Arc;

use super::{Bytes, Caps, Costed, Go, KeyRange, KvRead, OrderedKv, ScanOptions, Write};
use crate::{OpCost, Result};

macro_rules! forward {
    ($store:ty) => {
        impl<S: OrderedKv> OrderedKv for $store {
            type Read<'a>
                = S::Read<'a>
            where
                Self: 'a;
            type Tx<'a> = S::Tx<'a>;

            #[inline]
            fn caps(&self) -> &Caps {
                (**self).caps()
            }

            #[inline]
            fn read(&self) -> Result<S::Read<'_>> {
                (**self).read()
            }

            #[inline]
            fn update<T>(&self, f: impl FnMut(&mut S::Tx<'_>) -> Result<T>) -> Result<Costed<T>> {
                (**self).update(f)
            }

            #[inline]
            fn write(&self, writes: impl FnMut(&mut dyn FnMut(Write<'_>)) -> Result<()>) -> Result<OpCost> {
                (**self).write(writes)
            }

            #[inline]
            fn put(&self, key: &[u8], value: &[u8]) -> Result<OpCost> {
                (**self).put(key, value)
            }

            #[inline]
            fn delete(&self, key: &[u8]) -> Result<OpCost> {
                (**self).delete(key)
            }

            #[inline]
            fn get(&self, key: &[u8]) -> Result<Costed<Option<Bytes>>> {
                (**self).get(key)
            }

            #[inline]
            fn contains(&self, key: &[u8]) -> Result<Costed<bool>> {
                (**self).contains(key)
            }
        }
    };
}

forward!(&S);
forward!(Arc<S>);

impl<R: KvRead> KvRead for &R {
    type Scan<'a>
        = R::Scan<'a>
    where
        Self: 'a;

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        (**self).get(key)
    }

    #[inline]
    fn contains(&self, key: &[u8]) -> Result<bool> {
        (**self).contains(key)
    }

    #[inline]
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        (**self).get_many(keys)
    }

    #[inline]
    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<R::Scan<'_>> {
        (**self).scan(range, options)
    }

    #[inline]
    fn visit(&self, range: KeyRange, visit: impl FnMut(&[u8], &[u8]) -> Result<Go>) -> Result<()> {
        (**self).visit(range, visit)
    }

    #[inline]
    fn cost(&self) -> OpCost {
        (**self).cost()
    }
}
