//! What may be said of a write.

use terrace_codec::Element;
use terrace_plan::policy::{Asked, Budget, Weights};

use crate::catalog::Attributes;
use crate::config::Ack;

/// How an object is to be written; what is left open comes from the store's rules and configuration.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// How many replicas.
    pub replicas: Option<u8>,
    /// When the call may return.
    pub ack: Option<Ack>,
    /// The type of the bytes' elements, where it is known.
    pub element: Option<Element>,
    /// What matters for this object; where two requirements conflict, the first stands.
    pub requirements: Vec<Asked>,
    /// What matters when replicas are encoded; wins over requirements.
    pub weights: Option<Weights>,
    /// The most bytes stored for each byte given, over all replicas.
    pub budget: Option<Budget>,
    /// The object's attributes; none: those of a file that was modified just now.
    pub attributes: Option<Attributes>,
    /// Write only if the key names nothing yet.
    pub create_new: bool,
}

impl PutOptions {
    /// An operation's options over its application's: its requirements come first, and what the application asks for by
    /// number only holds where the operation asks for nothing at all.
    ///
    /// ```
    /// use terrace::PutOptions;
    ///
    /// let application = PutOptions { replicas: Some(3), ..PutOptions::default() };
    /// assert_eq!(PutOptions::default().over(&application).replicas, Some(3));
    /// let dense = PutOptions { requirements: vec!["min_storage".parse()?], ..PutOptions::default() };
    /// assert_eq!(dense.over(&application).replicas, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(self, application: &PutOptions) -> PutOptions {
        let silent = self.requirements.is_empty();
        let usual = if silent { application.clone() } else { PutOptions::default() };
        PutOptions {
            replicas: self.replicas.or(usual.replicas),
            ack: self.ack.or(usual.ack),
            weights: self.weights.or(usual.weights),
            budget: self.budget.or(usual.budget),
            element: self.element.or(application.element),
            requirements: self.requirements.into_iter().chain(application.requirements.iter().copied()).collect(),
            attributes: self.attributes,
            create_new: self.create_new,
        }
    }

    /// Whether it says how replicas are to be encoded.
    pub(super) fn says_how(&self) -> bool {
        !self.requirements.is_empty() || self.weights.is_some() || self.budget.is_some()
    }
}

/// The element type that a file's name tells.
pub fn element_of(name: &[u8]) -> Option<Element> {
    let extension = name.rsplit(|&b| b == b'.').next()?;
    Some(match extension {
        b"f32" => Element::F32,
        b"f64" => Element::F64,
        b"i32" => Element::I32,
        b"aos32" => Element::Record32,
        _ => return None,
    })
}
