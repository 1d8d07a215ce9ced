//! Derives for `esker-layouts`: key types from structs and enums.
//!
//! Use it through `esker_layouts::tuple::Key`, whose documentation says what it makes; this crate has no interface of its own.
#![forbid(unsafe_code)]

mod enums;
mod options;
mod structs;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, parse_macro_input};

/// The order-preserving encoding of a struct or enum, and its prefixes. Documented at
/// `esker_layouts::tuple::Key`.
#[proc_macro_derive(Key, attributes(key))]
pub fn key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let made = match &input.data {
        Data::Struct(data) => structs::key(&input, data),
        Data::Enum(data) => enums::key(&input, data),
        Data::Union(_) => Err(syn::Error::new_spanned(&input.ident, "a key is a struct or an enum")),
    };
    made.unwrap_or_else(syn::Error::into_compile_error).into()
}
