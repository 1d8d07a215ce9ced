//! Enums as keys and as fields of keys: the variant's tag, then its fields.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DataEnum, DeriveInput, Error, Expr, ExprLit, Fields, Lit, Member, Result, Variant};

use crate::options::number;
use crate::structs::{Part, parts};

/// The number that stands for `variant`, the one behind `last`.
fn tag(variant: &Variant, last: Option<u32>) -> Result<u32> {
    let given = number(&variant.attrs, "key", "tag")?;
    let discriminant = match &variant.discriminant {
        Some((_, Expr::Lit(ExprLit { lit: Lit::Int(value), .. }))) => Some(value.base10_parse()?),
        Some((_, other)) => {
            return Err(Error::new_spanned(other, "a tag is a number from 0 on, written out"));
        }
        None => None,
    };
    let next = last.map_or(Some(0), |last| last.checked_add(1));
    let tag = given.or(discriminant).or(next);
    match tag {
        Some(tag) if last.is_none_or(|last| tag > last) => Ok(tag),
        _ => Err(Error::new_spanned(
            variant,
            "tags ascend, so that keys sort in the order in which the variants are declared",
        )),
    }
}

/// `#[derive(Key)]` for an enum.
pub(crate) fn key(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "an enum in a key has no parameters"));
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum in a key has at least one variant"));
    }
    let (name, text) = (&input.ident, input.ident.to_string());
    let (mut packs, mut unpacks, mut last) = (Vec::new(), Vec::new(), None);
    for variant in &data.variants {
        let tag = tag(variant, last)?;
        last = Some(tag);
        let (label, parts) = (&variant.ident, parts(&variant.fields)?);
        let bound: Vec<_> = (0..parts.len()).map(|place| format_ident!("field_{}", place)).collect();
        let members: Vec<&Member> = parts.iter().map(|part| &part.member).collect();
        let fields = parts.iter().zip(&bound).map(|(part, name)| part.pack(&quote! { #name }));
        let read = parts.iter().map(Part::unpack);
        packs.push(quote! {
            #name::#label { #(#members: #bound),* } => {
                ::esker_layouts::tuple::PackField::pack_field(&#tag, out, depth);
                #(#fields)*
            }
        });
        unpacks.push(quote! { #tag => #name::#label { #(#members: #read),* } });
    }
    // Variants without fields are a number; with fields, a tuple of its own that delimits itself.
    let fieldless = data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit));
    let (as_field, from_field) = if fieldless {
        (
            quote! { ::esker_layouts::tuple::Pack::pack_at(self, out, depth); },
            quote! { <Self as ::esker_layouts::tuple::Unpack>::unpack_from(fields) },
        )
    } else {
        (
            quote! { ::esker_layouts::tuple::pack_nested(self, out, depth); },
            quote! { fields.nested(<Self as ::esker_layouts::tuple::Unpack>::unpack_from) },
        )
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::esker_layouts::tuple::Pack for #name {
            fn pack_at(&self, out: &mut ::std::vec::Vec<u8>, depth: usize) {
                match self { #(#packs)* }
            }
        }

        #[automatically_derived]
        impl ::esker_layouts::tuple::PackField for #name {
            fn pack_field(&self, out: &mut ::std::vec::Vec<u8>, depth: usize) {
                #as_field
            }
        }

        #[automatically_derived]
        impl ::esker_layouts::tuple::Unpack for #name {
            fn unpack_from(
                fields: &mut ::esker_layouts::tuple::Fields<'_>,
            ) -> ::core::result::Result<Self, ::esker_layouts::tuple::KeyError> {
                let at = fields.position();
                ::core::result::Result::Ok(match fields.field::<u32>()? {
                    #(#unpacks,)*
                    tag => return ::core::result::Result::Err(::esker_layouts::tuple::KeyError {
                        at,
                        kind: ::esker_layouts::tuple::KeyErrorKind::UnknownVariant { of: #text, tag },
                    }),
                })
            }
        }

        #[automatically_derived]
        impl ::esker_layouts::tuple::UnpackField for #name {
            fn unpack_field(
                fields: &mut ::esker_layouts::tuple::Fields<'_>,
            ) -> ::core::result::Result<Self, ::esker_layouts::tuple::KeyError> {
                #from_field
            }
        }
    })
}
