//! The attributes `#[key(…)]` and `#[row(…)]`.

use syn::{Attribute, Error, LitInt, Path, Result};

/// How a field of a key is written.
#[derive(Clone, Copy, Default)]
pub(crate) struct FieldOptions {
    /// In descending order.
    pub(crate) desc: bool,
    /// With its type's full width.
    pub(crate) fixed: bool,
}

impl FieldOptions {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<FieldOptions> {
        let mut options = FieldOptions::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("key")) {
            attribute.parse_nested_meta(|meta| {
                let flag = if meta.path.is_ident("desc") {
                    &mut options.desc
                } else if meta.path.is_ident("fixed") {
                    &mut options.fixed
                } else if meta.path.is_ident("hashed") {
                    return Err(meta.error(
                        "a digest cannot be turned back into the field; give the field the type Hashed<T>",
                    ));
                } else {
                    return Err(meta.error("a field of a key takes #[key(desc)] and #[key(fixed)]"));
                };
                if std::mem::replace(flag, true) {
                    return Err(meta.error("it is given twice"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The options of a row's type.
pub(crate) struct RowOptions {
    pub(crate) version: u64,
    /// The function that takes rows of older versions.
    pub(crate) upgrade: Option<Path>,
}

impl RowOptions {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<RowOptions> {
        let mut options = RowOptions { version: 1, upgrade: None };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("row")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("version") {
                    options.version = meta.value()?.parse::<LitInt>()?.base10_parse()?;
                } else if meta.path.is_ident("upgrade") {
                    options.upgrade = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("a row takes #[row(version = a number, upgrade = a function)]"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The number behind `name` in `#[attribute(name = number)]`.
pub(crate) fn number(attributes: &[Attribute], attribute: &str, name: &str) -> Result<Option<u32>> {
    let mut found = None;
    for given in attributes.iter().filter(|given| given.path().is_ident(attribute)) {
        given.parse_nested_meta(|meta| {
            if !meta.path.is_ident(name) {
                return Err(meta.error(format!("only #[{attribute}({name} = a number)] is known here")));
            }
            let literal: LitInt = meta.value()?.parse()?;
            if found.replace(literal.base10_parse()?).is_some() {
                return Err(Error::new_spanned(&literal, "it is given twice"));
            }
            Ok(())
        })?;
    }
    Ok(found)
}
