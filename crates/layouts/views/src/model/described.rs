//! Resolves the attributes and fill values of a dataset.

use std::collections::HashMap;

use super::attribute::{is_number, number};
use super::{Attribute, Dataset, Primitive, Shape, Value};
use crate::language::ast::{At, Declaration, Item, Literal, Name};
use crate::language::{Diagnostic, Diagnostics, Span, suggest};

/// Adds the declared attributes and fill values to a dataset.
pub(super) fn describe(dataset: &mut Dataset, declarations: &[&At<Declaration>], diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<(String, &str), Span> = HashMap::new();
    for At { what, span } in declarations {
        let described = match what {
            Declaration::Attribute(path, name, value) => {
                let path = path.as_deref().map(|path| found(dataset, path)).transpose();
                path.and_then(|path| {
                    let path = path.unwrap_or_default();
                    check_once(
                        &mut seen,
                        (path.clone(), &name.text),
                        name.span,
                        &format!("the attribute `{}`", name.text),
                    )?;
                    let value = Value::of(&value.what).map_err(|wrong| Diagnostic::error(value.span, wrong))?;
                    let attribute = Attribute { name: name.text.clone(), value };
                    match path.is_empty() {
                        true => dataset.attributes.push(attribute),
                        false => dataset.own_attributes.entry(path).or_default().push(attribute),
                    }
                    Ok(())
                })
            }
            Declaration::Fill(path, value) => found(dataset, path).and_then(|path| {
                check_once(&mut seen, (format!("fill {path}"), ""), *span, "a fill value")?;
                fill(dataset, &path, value)
            }),
            _ => Ok(()),
        };
        if let Err(wrong) = described {
            diagnostics.push(wrong);
        }
    }
}

fn check_once<'a>(
    seen: &mut HashMap<(String, &'a str), Span>,
    key: (String, &'a str),
    span: Span,
    what: &str,
) -> Result<(), Diagnostic> {
    match seen.insert(key, span) {
        Some(first) => Err(Diagnostic::error(span, format!("{what} is there already")).label(first, "first here")),
        None => Ok(()),
    }
}

/// Returns a path of names, if it is one of a variable or of a member that is no struct.
fn found(dataset: &Dataset, path: &[Name]) -> Result<String, Diagnostic> {
    let text = path.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(".");
    if dataset.variable(&text).is_some() || dataset.leaves.iter().any(|leaf| leaf.path == text) {
        return Ok(text);
    }
    let span =
        path.first().map_or(Span::default(), |first| path.last().map_or(first.span, |last| first.span.to(last.span)));
    let inner = format!("{text}.");
    let error = match dataset.leaves.iter().find(|leaf| leaf.path.starts_with(&inner)) {
        Some(leaf) => Diagnostic::error(span, format!("`{text}` is a struct within a variable"))
            .help(format!("describe its members, such as `{}`", leaf.path)),
        None => {
            let names = dataset.variables.iter().map(|variable| variable.name.as_str());
            let known: Vec<&str> = names.chain(dataset.leaves.iter().map(|leaf| leaf.path.as_str())).collect();
            let error = Diagnostic::error(span, format!("the dataset has no variable `{text}`"));
            Diagnostic { help: suggest(&text, known.iter().copied()), ..error }
        }
    };
    Err(error)
}

fn fill(dataset: &mut Dataset, path: &str, value: &At<Literal>) -> Result<(), Diagnostic> {
    let wrong = |text: String| Diagnostic::error(value.span, text);
    let sizes: Vec<usize> = dataset.variables.iter().flat_map(|variable| size_variables(&variable.shape)).collect();
    if dataset.variable(path).is_some_and(|number| sizes.contains(&number)) {
        return Err(wrong(format!("`{path}` is the length of an array, which begins as 0")));
    }
    let Some(leaf) = dataset.leaves.iter_mut().find(|leaf| leaf.path == path) else {
        return Err(wrong(format!("`{path}` is a struct; give its members fill values")));
    };
    let primitive = leaf.primitive;
    if !is_number(primitive) {
        return Err(wrong(format!("elements of the type `{primitive}` have no fill value but zero")));
    }
    let Literal { kind, item: Item::Word(word) } = &value.what else {
        return Err(wrong("a fill value is one number".to_owned()));
    };
    if kind.as_ref().is_some_and(|kind| kind.text.parse::<Primitive>() != Ok(primitive)) {
        return Err(wrong(format!("the elements of `{path}` have the type `{primitive}`")));
    }
    let bytes = number(primitive, word).map_err(wrong)?;
    leaf.fill = bytes.iter().any(|byte| *byte != 0).then_some(bytes);
    Ok(())
}

/// Returns the variables that hold lengths of a shape.
fn size_variables(shape: &Shape) -> Vec<usize> {
    match shape {
        Shape::Primitive(_) => Vec::new(),
        Shape::Struct(members) => members.iter().flat_map(|member| size_variables(&member.shape)).collect(),
        Shape::Array(lengths, element) => {
            let own = lengths.iter().filter_map(|length| match length {
                super::Length::Variable(number) => Some(*number),
                super::Length::Fixed(_) => None,
            });
            own.chain(size_variables(element)).collect()
        }
    }
}
