//! The syntax tree of a file. Two trees are equal if they mean the same; positions do not count.

use super::Span;

/// A name with its position.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub text: String,
    /// The position.
    pub span: Span,
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.text == other.text
    }
}

/// A node with its position.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The node.
    pub what: T,
    /// The position.
    pub span: Span,
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &At<T>) -> bool {
        self.what == other.what
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The sections in the order of the text.
    pub sections: Vec<At<Section>>,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// The variables and types.
    Dataset(Vec<At<Declaration>>),
    /// A view of the dataset.
    View(View),
    /// A replica of the dataset.
    Replica(Replica),
    /// More sections in another file. The first field is the keyword of the section.
    Include(&'static str, String),
}

/// A line of the dataset section.
#[derive(Clone, Debug, PartialEq)]
pub enum Declaration {
    /// `const N = 10`
    Constant(Name, Expression),
    /// `type Point struct { ... }`
    Type(Name, Type),
    /// `var a, b [N]Point`
    Variables(Vec<Name>, Type),
    /// `attribute t units = "K"`; without a path, an attribute of the dataset. The name may be any text.
    Attribute(Option<Vec<Name>>, Name, At<Literal>),
    /// `fill data.t = -999.0`
    Fill(Vec<Name>, At<Literal>),
}

/// The value of an attribute, or a fill value: `float32 [1.5, nan]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// The type, if it does not follow from the items.
    pub kind: Option<Name>,
    /// The items.
    pub item: Item,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A text.
    Text(String),
    /// A number with its sign, `nan`, `inf`, `true` or `false`, as written.
    Word(String),
    /// `[1, 2, 3]`
    List(Vec<Item>),
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A primitive type or a named one.
    Named(Name),
    /// `struct { a, b int8; c int16 }`
    Struct(Vec<At<Field>>),
    /// `[10, 5]float32`
    Array(Vec<Expression>, Box<Type>),
}

/// Fields of a struct that share a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Their names.
    pub names: Vec<Name>,
    /// Their type.
    pub shape: Type,
}

/// Arithmetic.
pub type Expression = At<Term>;

/// A term of arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A number, which is never negative, and its text.
    Integer(i64, String),
    /// A constant, a variable that holds a size, or an index.
    Name(String),
    /// `-x`
    Negative(Box<Expression>),
    /// `x + y` and so on: one of `+ - * / %`.
    Binary(char, Box<Expression>, Box<Expression>),
}

/// A view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Its name.
    pub name: Name,
    /// The flags in the order of the text.
    pub flags: Vec<At<Flag>>,
    /// The contents in the order of the text.
    pub declarations: Vec<At<ViewDeclaration>>,
}

/// A flag of a view.
#[derive(Clone, Debug, PartialEq)]
pub enum Flag {
    /// The view is read-only.
    ReadOnly,
    /// The usual order of elements: row-major.
    Default,
    /// The last index is the fastest.
    RowMajor,
    /// The first index is the fastest.
    RowMinor,
    /// In tiles of this shape.
    Tiled(Vec<Expression>),
    /// Arrays of structs in blocks of this number of elements, each stored field by field.
    Blocked(Expression),
    /// Along the Z-order curve.
    ZOrder,
    /// Little-endian.
    Little,
    /// Big-endian.
    Big,
    /// No padding.
    Packed,
    /// Fields and structs aligned as in C.
    Aligned,
    /// Each variable begins at a multiple of this number of bytes.
    Align(Expression),
}

/// A line of a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewDeclaration {
    /// `type B { b } Point`
    Type(Name, Vec<At<ViewField>>, Name),
    /// `var d [i]{ b } = data[i*3]`
    Variable(Name, Selection, Reference),
}

/// The visible part of something.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// All of it.
    Whole,
    /// A named view type.
    Named(Name),
    /// Some fields of a struct.
    Fields(Vec<At<ViewField>>),
    /// An array of selections. Without indices, it is as long as the array that it shows.
    Array(Vec<Index>, Box<Selection>),
}

/// An index of a view's array.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name.
    pub name: Name,
    /// The index stays below this bound.
    pub bound: Option<Expression>,
}

/// Fields of a view's struct.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewField {
    /// Their names.
    pub names: Vec<Name>,
    /// The visible part of each.
    pub selection: Selection,
    /// The origin, if it is not the field of the same name.
    pub source: Option<Reference>,
}

/// `data[i*3].position[0]`
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The variable, or the field of the struct around.
    pub base: Name,
    /// The path from the base.
    pub steps: Vec<Step>,
}

/// A step of a reference.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A step to an element.
    Index(At<Vec<Expression>>),
    /// A step to a field.
    Field(Name),
}

/// A replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Its name.
    pub name: Name,
    /// The name of its file, if it differs.
    pub file: Option<String>,
    /// Whether it also stores everything that its views leave out.
    pub complete: bool,
    /// Its lines.
    pub lines: Vec<At<ReplicaLine>>,
}

/// A line of a replica.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaLine {
    /// A view that is stored in it.
    View(Name),
    /// `consistency async 2s atomic`
    Consistency(Consistency, bool),
    /// `tier ram, disk`
    Tier(Vec<Name>),
    /// `codec "shuffle4+zstd"`
    Codec(String),
    /// `requirement min_storage, max_durability`
    Requirement(Vec<Name>),
    /// `backend raw`
    Backend(Name),
}

/// The time at which a write reaches a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Before the write returns.
    #[default]
    Sync,
    /// Later, but within this number of milliseconds if a bound is given.
    Async(Option<u64>),
    /// When the file is closed.
    OnClose,
}
