//! Structs as keys and as rows.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{DataStruct, DeriveInput, Error, Fields, GenericParam, Index, Member, Result, Type, WhereClause};

use crate::options::{FieldOptions, RowOptions};

/// Fields of a key that has prefixes: the tuples of `esker-layouts` end there.
const PREFIX_FIELDS_MAX: usize = 8;

/// A field as the encoding sees it.
pub(crate) struct Part {
    pub(crate) member: Member,
    pub(crate) ty: Type,
    pub(crate) options: FieldOptions,
}

impl Part {
    /// Writes the field that the reference `from` leads to.
    pub(crate) fn pack(&self, from: &TokenStream) -> TokenStream {
        let value = self.wrapped(from);
        quote! { ::esker_layouts::tuple::PackField::pack_field(&#value, out, depth); }
    }

    /// The reference `from` in the wrappers that the options ask for.
    fn wrapped(&self, from: &TokenStream) -> TokenStream {
        let inner = if self.options.fixed {
            quote! { ::esker_layouts::tuple::Fixed(::core::clone::Clone::clone(#from)) }
        } else {
            quote! { #from }
        };
        if self.options.desc {
            quote! { ::esker_layouts::tuple::Desc(#inner) }
        } else {
            inner
        }
    }

    /// `inner` in the wrappers' types.
    fn wrapped_type(&self, inner: TokenStream) -> TokenStream {
        let inner = if self.options.fixed {
            quote! { ::esker_layouts::tuple::Fixed<#inner> }
        } else {
            inner
        };
        if self.options.desc {
            quote! { ::esker_layouts::tuple::Desc<#inner> }
        } else {
            inner
        }
    }

    /// Reads the field.
    pub(crate) fn unpack(&self) -> TokenStream {
        let ty = &self.ty;
        let wrapped = self.wrapped_type(quote! { #ty });
        let inner = [self.options.desc, self.options.fixed].into_iter().filter(|wrap| *wrap);
        let unwrap = inner.map(|_| quote! { .0 });
        quote! { fields.field::<#wrapped>()? #(#unwrap)* }
    }
}

/// The fields of a struct or variant, in order.
pub(crate) fn parts(fields: &Fields) -> Result<Vec<Part>> {
    let part = |(place, field): (usize, &syn::Field)| {
        let member = match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index::from(place)),
        };
        Ok(Part { member, ty: field.ty.clone(), options: FieldOptions::of(&field.attrs)? })
    };
    fields.iter().enumerate().map(part).collect()
}

/// The where clause of `input`, with the bound `of` for each field whose type has a parameter in it.
fn bounded(input: &DeriveInput, types: &[&Type], of: &TokenStream) -> TokenStream {
    let given =
        input.generics.where_clause.as_ref().map(|WhereClause { predicates, .. }| predicates.iter());
    let given = given.into_iter().flatten();
    let has_types = input.generics.params.iter().any(|param| matches!(param, GenericParam::Type(_)));
    let bounds = types.iter().filter(|_| has_types).map(|ty| quote! { #ty: #of });
    quote! { where #(#given,)* #(#bounds,)* }
}

/// The encoding as a tuple of `parts`, and as a nested one.
fn tuple(input: &DeriveInput, parts: &[Part]) -> TokenStream {
    let name = &input.ident;
    let (generics, arguments, _) = input.generics.split_for_impl();
    let types: Vec<&Type> = parts.iter().map(|part| &part.ty).collect();
    let field = quote! { ::esker_layouts::tuple::PackField };
    let packing = bounded(input, &types, &field);
    let unpacking = bounded(input, &types, &quote! { ::esker_layouts::tuple::UnpackField });
    let pack: Vec<_> = parts
        .iter()
        .map(|part| {
            let member = &part.member;
            part.pack(&quote! { &self.#member })
        })
        .collect();
    let unpack = parts.iter().map(|part| {
        let (member, read) = (&part.member, part.unpack());
        quote! { #member: #read }
    });
    quote! {
        #[automatically_derived]
        impl #generics ::esker_layouts::tuple::Pack for #name #arguments #packing {
            fn pack_at(&self, out: &mut ::std::vec::Vec<u8>, depth: usize) {
                #(#pack)*
            }

            fn pack_each(
                &self,
                out: &mut ::std::vec::Vec<u8>,
                behind: &mut impl ::core::ops::FnMut(&[u8]),
            ) -> ::core::result::Result<(), ::esker_layouts::tuple::KeyError> {
                let depth = 0;
                #(
                    #pack
                    behind(out);
                )*
                ::core::result::Result::Ok(())
            }
        }

        #[automatically_derived]
        impl #generics ::esker_layouts::tuple::PackField for #name #arguments #packing {
            fn pack_field(&self, out: &mut ::std::vec::Vec<u8>, depth: usize) {
                ::esker_layouts::tuple::pack_nested(self, out, depth);
            }
        }

        #[automatically_derived]
        impl #generics ::esker_layouts::tuple::Unpack for #name #arguments #unpacking {
            fn unpack_from(
                fields: &mut ::esker_layouts::tuple::Fields<'_>,
            ) -> ::core::result::Result<Self, ::esker_layouts::tuple::KeyError> {
                ::core::result::Result::Ok(Self { #(#unpack),* })
            }
        }

        #[automatically_derived]
        impl #generics ::esker_layouts::tuple::UnpackField for #name #arguments #unpacking {
            fn unpack_field(
                fields: &mut ::esker_layouts::tuple::Fields<'_>,
            ) -> ::core::result::Result<Self, ::esker_layouts::tuple::KeyError> {
                fields.nested(<Self as ::esker_layouts::tuple::Unpack>::unpack_from)
            }
        }
    }
}

/// The function that makes the prefix of the first `count` fields.
fn prefix(input: &DeriveInput, parts: &[Part], count: usize) -> TokenStream {
    let (vis, key) = (&input.vis, &input.ident);
    let (_, arguments, _) = input.generics.split_for_impl();
    let parts = || parts.iter().take(count);
    let argument = |part: &Part| match &part.member {
        Member::Named(name) => name.clone(),
        Member::Unnamed(index) => format_ident!("field_{}", index.index),
    };
    let names: Vec<Ident> = parts().map(argument).collect();
    let function = match parts().next_back().map(|part| &part.member) {
        Some(Member::Named(name)) => format_ident!("prefix_{}", name),
        _ => format_ident!("prefix_{}", count),
    };
    // What a fixed field is given as is its type itself; others may be borrowed forms.
    let given: Vec<TokenStream> = parts()
        .enumerate()
        .map(|(place, part)| {
            let (ty, any) = (&part.ty, format_ident!("Field{}", place));
            if part.options.fixed {
                quote! { #ty }
            } else {
                quote! { #any }
            }
        })
        .collect();
    let parameters = parts().enumerate().filter(|(_, part)| !part.options.fixed).map(|(place, part)| {
        let (ty, any) = (&part.ty, format_ident!("Field{}", place));
        quote! { #any: ::esker_layouts::tuple::FieldOf<#ty> + ?Sized }
    });
    let stored = parts().zip(&given).map(|(part, given)| {
        part.wrapped_type(if part.options.fixed {
            quote! { #given }
        } else {
            quote! { &'prefix #given }
        })
    });
    let values = parts().zip(&names).map(|(part, name)| part.wrapped(&quote! { #name }));
    let doc = format!(
        "The beginning of a [`{key}`] up to and with {}.",
        function.to_string().replace("prefix_", "")
    );
    quote! {
        #[doc = #doc]
        #[allow(dead_code, reason = "one of several, made for whoever needs it")]
        #vis fn #function<'prefix, #(#parameters),*>(
            #(#names: &'prefix #given),*
        ) -> ::esker_layouts::tuple::Prefix<#key #arguments, (#(#stored,)*)> {
            ::esker_layouts::tuple::Prefix::new((#(#values,)*))
        }
    }
}

/// `#[derive(Key)]` for a struct.
pub(crate) fn key(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let parts = parts(&data.fields)?;
    if parts.is_empty() {
        return Err(Error::new_spanned(&input.ident, "a key has at least one field"));
    }
    if parts.len() > PREFIX_FIELDS_MAX {
        let why = format!("a key has at most {PREFIX_FIELDS_MAX} fields; nest some of them in a struct");
        return Err(Error::new_spanned(&input.ident, why));
    }
    let (generics, arguments, clause) = input.generics.split_for_impl();
    let (name, tuple) = (&input.ident, tuple(input, &parts));
    let prefixes = (1..parts.len()).map(|count| prefix(input, &parts, count));
    Ok(quote! {
        #tuple

        #[automatically_derived]
        impl #generics #name #arguments #clause {
            #(#prefixes)*
        }
    })
}

/// `#[derive(Row)]`.
pub(crate) fn row(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "a row is a struct with named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a row's type has no parameters"));
    }
    let parts = parts(&data.fields)?;
    if parts.is_empty() {
        return Err(Error::new_spanned(&input.ident, "a row has at least one field"));
    }
    let RowOptions { version, upgrade } = RowOptions::of(&input.attrs)?;
    let upgrade = upgrade.map(|path| {
        quote! {
            fn upgrade(
                version: u64,
                fields: &[::esker_layouts::tuple::Element<'_>],
            ) -> ::core::option::Option<Self> {
                #path(version, fields)
            }
        }
    });
    let (vis, name, tuple) = (&input.vis, &input.ident, tuple(input, &parts));
    let texts = fields.named.iter().filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string()));
    let handles = fields.named.iter().zip(0u32..).filter_map(|(field, place)| {
        let (field_name, ty) = (field.ident.as_ref()?.unraw(), &field.ty);
        let handle = Ident::new(&field_name.to_string().to_uppercase(), field_name.span());
        let doc = format!("The field `{field_name}`.");
        Some(quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "one of several, made for whoever needs it")]
            #vis const #handle: ::esker_layouts::table::Field<#name, #ty> =
                ::esker_layouts::table::Field::at(#place);
        })
    });
    Ok(quote! {
        #tuple

        #[automatically_derived]
        impl ::esker_layouts::table::Row for #name {
            const VERSION: u64 = #version;
            const FIELDS: &'static [&'static str] = &[#(#texts),*];

            #upgrade
        }

        #[automatically_derived]
        impl #name {
            #(#handles)*
        }
    })
}
