//! Compressing and decompressing data blocks.
//!
//! Decompression writes into a zeroed buffer of exactly the length the block claims, which
//! [`stored::check`](crate::stored::check) has compared with the most it can be.

use esker_base::memory::zeroed;
use esker_base::{Error, Result};

use crate::options::Compression;
use crate::stored::{Checked, Codec, Location, raw_bytes_max};

/// A compressor with its tables, one a writer.
pub(crate) struct Compressor {
    compression: Compression,
    lz4: lz4_flex::block::CompressTable,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl Compressor {
    #[cfg_attr(
        not(feature = "zstd"),
        expect(clippy::unnecessary_wraps, reason = "the same face with and without zstd")
    )]
    pub(crate) fn new(compression: Compression) -> Result<Compressor> {
        Ok(Compressor {
            compression,
            lz4: lz4_flex::block::CompressTable::default(),
            #[cfg(feature = "zstd")]
            zstd: match compression {
                Compression::Zstd { level } => Some(
                    zstd::bulk::Compressor::new(level)
                        .map_err(|e| Error::invalid(format!("zstd refuses level {level}: {e}")))?,
                ),
                _ => None,
            },
            out: Vec::new(),
        })
    }

    /// Whether blocks are to be compressed at all.
    pub(crate) fn is_active(&self) -> bool {
        self.compression != Compression::None
    }

    /// `raw` compressed, or `None` if that saves less than 12 %.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Option<(Codec, &[u8])> {
        let (codec, len) = match self.compression {
            Compression::None => return None,
            Compression::Lz4 => (Codec::Lz4, self.lz4(raw)?),
            Compression::Zstd { .. } => match self.zstd(raw) {
                // Readers bound what a block may claim by LZ4's best ratio.
                Some(len) if raw.len() <= raw_bytes_max(len) => (Codec::Zstd, len),
                _ => (Codec::Lz4, self.lz4(raw)?),
            },
        };
        let worth = len as u64 * 100 <= raw.len() as u64 * 88;
        if worth { Some((codec, self.out.get(..len)?)) } else { None }
    }

    fn lz4(&mut self, raw: &[u8]) -> Option<usize> {
        // A buffer of the worst case's length makes every failure impossible.
        let most = lz4_flex::block::get_maximum_output_size(raw.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        lz4_flex::block::compress_into_with_table(raw, &mut self.out, &mut self.lz4).ok()
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, raw: &[u8]) -> Option<usize> {
        let most = zstd::zstd_safe::compress_bound(raw.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        self.zstd.as_mut()?.compress_to_buffer(raw, self.out.as_mut_slice()).ok()
    }

    #[cfg(not(feature = "zstd"))]
    #[expect(clippy::unused_self, reason = "the same face with and without zstd")]
    fn zstd(&mut self, _raw: &[u8]) -> Option<usize> {
        None
    }
}

/// The raw bytes of a compressed block.
pub(crate) fn decompress(location: Location<'_>, checked: Checked<'_>) -> Result<Vec<u8>> {
    let mut raw = zeroed(checked.raw_len, "a decompressed block")?;
    let produced = match checked.codec {
        Codec::None => {
            raw.copy_from_slice(checked.payload);
            raw.len()
        }
        Codec::Lz4 => lz4_flex::block::decompress_into(checked.payload, &mut raw)
            .map_err(|e| location.damaged(0, format!("the block's LZ4 does not decode: {e}")))?,
        Codec::Zstd => zstd_decompress(location, checked.payload, &mut raw)?,
    };
    if produced != raw.len() {
        let what = format!("the block decompresses to {produced} bytes, {} were written", raw.len());
        return Err(location.damaged(0, what));
    }
    Ok(raw)
}

#[cfg(feature = "zstd")]
fn zstd_decompress(location: Location<'_>, payload: &[u8], raw: &mut [u8]) -> Result<usize> {
    use std::cell::RefCell;
    thread_local! {
        // Setting a context up costs more than a block's decompression.
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT
        .with_borrow_mut(|context| {
            let decompressor = match context {
                Some(decompressor) => decompressor,
                None => context.insert(zstd::bulk::Decompressor::new()?),
            };
            decompressor.decompress_to_buffer(payload, raw)
        })
        .map_err(|e| location.damaged(0, format!("the block's zstd does not decode: {e}")))
}

#[cfg(not(feature = "zstd"))]
fn zstd_decompress(location: Location<'_>, _payload: &[u8], _raw: &mut [u8]) -> Result<usize> {
    Err(Error::invalid(format!(
        "{} has a block compressed with zstd at byte {}; this build reads no zstd, build it with the \
         feature `zstd`",
        location.path.display(),
        location.offset
    )))
}
