//! Derives for `esker-layouts`: key types and row types from structs and enums.
//!
//! Use them through `esker_layouts::tuple::Key` and `esker_layouts::table::Row`, whose documentation says
//! what they make; this crate has no interface of its own.
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

/// The encoding of a row with its schema, and its typed fields. Documented at `esker_layouts::table::Row`.
#[proc_macro_derive(Row, attributes(row))]
pub fn row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let made = match &input.data {
        Data::Struct(data) => structs::row(&input, data),
        _ => Err(syn::Error::new_spanned(&input.ident, "a row is a struct with named fields")),
    };
    made.unwrap_or_else(syn::Error::into_compile_error).into()
}
