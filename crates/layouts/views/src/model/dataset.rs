//! The resolved dataset section.

use std::collections::HashMap;
use std::sync::Arc;

use super::affine::{Affine, Names};
use super::{Attribute, Length, Member, Primitive, Shape};
use crate::language::ast::{At, Declaration, Expression, Field, Name, Term, Type};
use crate::language::{Diagnostic, Diagnostics, Span, suggest};

/// The contents of a dataset.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// The variables, in order.
    pub variables: Vec<Variable>,
    /// The primitive parts of the variables, in order.
    pub leaves: Vec<Leaf>,
    /// The attributes of the dataset.
    pub attributes: Vec<Attribute>,
    /// The attributes of variables and of members, by path.
    pub(crate) own_attributes: HashMap<String, Vec<Attribute>>,
    pub(crate) constants: HashMap<String, i64>,
    pub(crate) types: HashMap<String, Shape>,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub shape: Shape,
    /// The position of the declaration.
    pub span: Span,
    /// The index of its first leaf.
    pub leaf: usize,
}

/// An array of primitives: one member of a variable, with all dimensions around it.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its path, as in `data.position`.
    pub path: String,
    /// Its type.
    pub primitive: Primitive,
    /// Its lengths, outermost first.
    pub lengths: Vec<Length>,
    /// The value of elements that were never written, little-endian, if it is not zero.
    pub fill: Option<Vec<u8>>,
}

/// Limits that no real declaration reaches and that bound memory and recursion.
pub(crate) const MAX_LEAVES: usize = 65_536;
const MAX_TYPE_DEPTH: usize = 64;
const MAX_DIMENSIONS: usize = 32;

impl Dataset {
    /// Returns the index of the variable with this name.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.name == name)
    }

    /// Returns the attributes of a variable, or of a member as in `data.position`.
    pub fn attributes_of(&self, path: &str) -> &[Attribute] {
        self.own_attributes.get(path).map_or(&[], Vec::as_slice)
    }
}

/// Resolves the declarations of all dataset sections.
pub(crate) fn dataset(declarations: &[&At<Declaration>], diagnostics: &mut Diagnostics) -> Dataset {
    let mut resolver =
        Resolver { dataset: Dataset::default(), types: HashMap::new(), open: Vec::new(), depth: 0, diagnostics };
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for At { what, .. } in declarations {
        if let Declaration::Type(name, shape) = what {
            if resolver.types.contains_key(name.text.as_str()) || name.text.parse::<Primitive>().is_ok() {
                let error = format!("the type `{}` is there already", name.text);
                resolver.diagnostics.push(Diagnostic::error(name.span, error));
            } else {
                resolver.types.insert(&name.text, (shape, name.span));
            }
        }
    }
    for At { what, .. } in declarations {
        let names = match what {
            Declaration::Constant(name, _) => std::slice::from_ref(name),
            Declaration::Variables(names, _) => names,
            Declaration::Type(name, _) => {
                resolver.named(&name.text, name.span);
                continue;
            }
            // They may precede their variables.
            Declaration::Attribute(..) | Declaration::Fill(..) => continue,
        };
        for name in names {
            if let Some(first) = seen.insert(&name.text, name.span) {
                let error = Diagnostic::error(name.span, format!("`{}` is declared twice", name.text));
                resolver.diagnostics.push(error.label(first, "first here"));
            }
        }
        match what {
            Declaration::Constant(name, value) => resolver.constant(name, value),
            Declaration::Variables(names, shape) => resolver.variables(names, shape),
            Declaration::Type(..) | Declaration::Attribute(..) | Declaration::Fill(..) => {}
        }
    }
    resolver.dataset
}

struct Resolver<'a, 'd> {
    dataset: Dataset,
    types: HashMap<&'a str, (&'a Type, Span)>,
    /// The types that are being resolved.
    open: Vec<&'a str>,
    depth: usize,
    diagnostics: &'d mut Diagnostics,
}

impl<'a> Resolver<'a, '_> {
    fn error<T>(&mut self, error: Diagnostic) -> Option<T> {
        self.diagnostics.push(error);
        None
    }

    fn constant(&mut self, name: &Name, value: &Expression) {
        if let Some(value) = self.value(value) {
            self.dataset.constants.insert(name.text.clone(), value);
        }
    }

    fn value(&mut self, expression: &Expression) -> Option<i64> {
        let names = Names {
            constants: &self.dataset.constants,
            indices: &[],
            variables: &|name| self.dataset.variable(name).is_some(),
        };
        match Affine::of(expression, &names) {
            Ok(value) => Some(value.constant),
            Err(error) => self.error(error),
        }
    }

    fn variables(&mut self, names: &'a [Name], shape: &'a Type) {
        let Some(shape) = self.shape(shape) else { return };
        for name in names {
            let leaf = self.dataset.leaves.len();
            if leaf + shape.leaves() > MAX_LEAVES {
                let error = format!("the dataset has more than {MAX_LEAVES} members");
                return self.error(Diagnostic::error(name.span, error)).unwrap_or_default();
            }
            let leaves = &mut self.dataset.leaves;
            shape.visit(&name.text, &[], &mut |path, primitive, lengths| {
                leaves.push(Leaf { path: path.to_owned(), primitive, lengths: lengths.to_vec(), fill: None });
            });
            if self.dataset.leaves.iter().skip(leaf).any(|leaf| leaf.lengths.len() > MAX_DIMENSIONS) {
                let error = format!("`{}` has more than {MAX_DIMENSIONS} dimensions", name.text);
                self.error::<()>(Diagnostic::error(name.span, error));
                self.dataset.leaves.truncate(leaf);
                continue;
            }
            let variable = Variable { name: name.text.clone(), shape: shape.clone(), span: name.span, leaf };
            self.dataset.variables.push(variable);
        }
    }

    fn shape(&mut self, shape: &'a Type) -> Option<Shape> {
        self.depth += 1;
        let resolved = self.resolve(shape);
        self.depth -= 1;
        resolved
    }

    fn resolve(&mut self, shape: &'a Type) -> Option<Shape> {
        match shape {
            Type::Named(name) => match name.text.parse() {
                Ok(primitive) => Some(Shape::Primitive(primitive)),
                Err(()) => self.named(&name.text, name.span),
            },
            Type::Struct(fields) => self.members(fields),
            Type::Array(lengths, element) => {
                let element_span = lengths.first().map_or(Span::default(), |l| l.span);
                let lengths: Option<Vec<Length>> = lengths.iter().map(|length| self.length(length)).collect();
                let element = self.shape(element);
                let (lengths, element) = (lengths?, element?);
                if lengths.iter().filter(|l| matches!(l, Length::Variable(_))).count() > 1 {
                    let error = Diagnostic::error(element_span, "only one dimension can be of variable size");
                    return self.error(error.help("give the others a constant length"));
                }
                if element.varies() {
                    let error = Diagnostic::error(element_span, "elements of an array cannot be of variable size");
                    return self.error(
                        error.help("make the outer array the variable one, or give the elements a constant length"),
                    );
                }
                Some(Shape::Array(lengths.into(), Arc::new(element)))
            }
        }
    }

    fn members(&mut self, fields: &'a [At<Field>]) -> Option<Shape> {
        let mut members: Vec<Member> = Vec::new();
        let mut seen: HashMap<&str, Span> = HashMap::new();
        let (mut whole, mut leaves) = (true, 0usize);
        for field in fields {
            let shape = self.shape(&field.what.shape);
            for name in &field.what.names {
                if let Some(first) = seen.insert(&name.text, name.span) {
                    let error = Diagnostic::error(name.span, format!("the struct has two fields `{}`", name.text));
                    self.error::<()>(error.label(first, "first here"));
                }
                let Some(shape) = shape.clone() else {
                    whole = false;
                    continue;
                };
                leaves = leaves.saturating_add(shape.leaves());
                if leaves > MAX_LEAVES {
                    let error = format!("the struct has more than {MAX_LEAVES} members");
                    return self.error(Diagnostic::error(name.span, error));
                }
                members.push(Member { name: name.text.clone(), leaves: shape.leaves(), shape });
            }
        }
        whole.then(|| Shape::Struct(members.into()))
    }

    /// Resolves a named type. Types may be used before they are defined.
    fn named(&mut self, name: &str, span: Span) -> Option<Shape> {
        if let Some(shape) = self.dataset.types.get(name) {
            return Some(shape.clone());
        }
        let Some((&key, &(shape, defined))) = self.types.get_key_value(name) else {
            let error = Diagnostic::error(span, format!("there is no type `{name}`"));
            let own: Vec<&str> = self.types.keys().copied().collect();
            let help = match name {
                "float" => Some("did you mean `float32`?".to_owned()),
                "double" => Some("did you mean `float64`?".to_owned()),
                "int" => Some("did you mean `int32`?".to_owned()),
                "char" | "byte" => Some("did you mean `int8`?".to_owned()),
                "string" => Some("say how long it can be: string16 for at most 16 bytes".to_owned()),
                name if name.starts_with("string") => Some("a string has at most 32767 bytes".to_owned()),
                name => suggest(name, Primitive::names().map(|known| -> &str { known }).chain(own.iter().copied())),
            };
            return self.error(Diagnostic { help, ..error });
        };
        if self.open.contains(&key) || self.depth >= MAX_TYPE_DEPTH {
            let error = match self.open.contains(&key) {
                true => Diagnostic::error(defined, format!("the type `{name}` contains itself"))
                    .label(span, "by way of this"),
                false => Diagnostic::error(span, format!("types are nested more than {MAX_TYPE_DEPTH} levels deep")),
            };
            return self.error(error);
        }
        self.open.push(key);
        let shape = self.shape(shape);
        self.open.pop();
        let shape = shape?;
        self.dataset.types.insert(name.to_owned(), shape.clone());
        Some(shape)
    }

    fn length(&mut self, expression: &Expression) -> Option<Length> {
        if let Term::Name(name) = &expression.what
            && let Some(number) = self.dataset.variable(name)
        {
            return match self.dataset.variables.get(number).map(|v| &v.shape) {
                Some(Shape::Primitive(primitive)) if primitive.is_integer() => Some(Length::Variable(number)),
                _ => {
                    let error =
                        Diagnostic::error(expression.span, format!("`{name}` is no integer, and cannot be a length"));
                    self.error(error)
                }
            };
        }
        let value = self.value(expression)?;
        match u64::try_from(value) {
            Ok(length) if length > 0 => Some(Length::Fixed(length)),
            _ => {
                let error = Diagnostic::error(expression.span, format!("an array cannot be {value} elements long"));
                self.error(error.help("its length must be at least 1; a variable as the length may be 0"))
            }
        }
    }
}
