//! The failures of calls, and the exception that Java gets for each; `TerraceException.java` has their classes.

use engine::Error;
use engine::files::FileError;
use jni::jni_str;
use jni::strings::JNIStr;

/// The class for what no other class stands for.
pub const RUNTIME_EXCEPTION_CLASS: &JNIStr = jni_str!("java/lang/RuntimeException");

/// The reasons why a call throws an exception.
#[derive(Debug, thiserror::Error)]
pub enum Thrown {
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// An error of a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store or the file was closed.
    #[error("the {0} is closed; open it again")]
    Closed(&'static str),
    /// An unusable argument.
    #[error("{0}")]
    Invalid(String),
    /// The bytes do not fit into an array.
    #[error("{0} bytes are more than an array of Java holds; read them in parts")]
    TooLong(u64),
    /// A call to Java failed.
    #[error(transparent)]
    Java(#[from] jni::errors::Error),
}

impl Thrown {
    /// Returns the class of the exception.
    pub fn class(&self) -> &'static JNIStr {
        match self {
            Thrown::Engine(error) => of_engine(error),
            Thrown::File(error) => of_file(error),
            Thrown::Closed(_) => jni_str!("java/lang/IllegalStateException"),
            Thrown::Invalid(_) => jni_str!("java/lang/IllegalArgumentException"),
            Thrown::TooLong(_) => jni_str!("io/terrace/TerraceException$TooLarge"),
            Thrown::Java(_) => RUNTIME_EXCEPTION_CLASS,
        }
    }
}

fn of_file(error: &FileError) -> &'static JNIStr {
    match error {
        FileError::NotFound(_) => jni_str!("io/terrace/TerraceException$NotFound"),
        FileError::Exists(_) => jni_str!("io/terrace/TerraceException$Exists"),
        FileError::NotDirectory(_) => jni_str!("io/terrace/TerraceException$NotDirectory"),
        FileError::IsDirectory(_) => jni_str!("io/terrace/TerraceException$IsDirectory"),
        FileError::NotEmpty(_) => jni_str!("io/terrace/TerraceException$NotEmpty"),
        FileError::NameTooLong(_) | FileError::Reserved(_) => jni_str!("io/terrace/TerraceException$BadKey"),
        FileError::Stale(_) => jni_str!("io/terrace/TerraceException$Conflict"),
        FileError::TooLarge(_) => jni_str!("io/terrace/TerraceException$TooLarge"),
        FileError::Engine(error) => of_engine(error),
        // What an operation on this kind of file does not support, and what the engine may add later.
        _ => jni_str!("io/terrace/TerraceException"),
    }
}

fn of_engine(error: &Error) -> &'static JNIStr {
    match error {
        Error::NotFound { .. } => jni_str!("io/terrace/TerraceException$NotFound"),
        Error::BadKey { .. } | Error::KeyTooLong { .. } | Error::Reserved { .. } | Error::ReadOnlyOrigin { .. } => {
            jni_str!("io/terrace/TerraceException$BadKey")
        }
        Error::Conflict { .. } => jni_str!("io/terrace/TerraceException$Conflict"),
        Error::Replaced { .. } | Error::ChangedAtOrigin { .. } => jni_str!("io/terrace/TerraceException$Replaced"),
        Error::Unreadable { .. } => jni_str!("io/terrace/TerraceException$Unreadable"),
        Error::TooLarge { .. } => jni_str!("io/terrace/TerraceException$TooLarge"),
        Error::NoSpace { .. } => jni_str!("io/terrace/TerraceException$NoSpace"),
        Error::StillOwed { .. } => jni_str!("io/terrace/TerraceException$StillPending"),
        Error::Config(_) => jni_str!("io/terrace/TerraceException$BadConfiguration"),
        Error::Store { .. } => jni_str!("io/terrace/TerraceException$BadStore"),
        Error::Catalog(_) | Error::Damaged { .. } | Error::LogDamaged(_) => {
            jni_str!("io/terrace/TerraceException$BadCatalog")
        }
        // Those of the operating system, and what the engine may add later.
        _ => jni_str!("io/terrace/TerraceException"),
    }
}
