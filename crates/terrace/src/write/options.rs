//! What may be said of a write.

use serde::{Deserialize, Serialize};
use terrace_codec::Element;
use terrace_plan::policy::{Asked, Budget, Weights};

use crate::catalog::{Attributes, Object};
use crate::config::Ack;

/// The pair of an object's attributes that says what was asked for with it, as TOML.
const ASKED: &str = "terrace.asked";

/// How an object is to be written; what is left open comes from the store's rules and configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PutOptions {
    /// How many replicas.
    pub replicas: Option<u8>,
    /// When the call may return.
    #[serde(skip)]
    pub ack: Option<Ack>,
    /// The type of the bytes' elements, where it is known.
    #[serde(skip)]
    pub element: Option<Element>,
    /// What matters for this object; where two requirements conflict, the first stands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Asked>,
    /// What matters when replicas are encoded; wins over requirements.
    pub weights: Option<Weights>,
    /// The most bytes stored for each byte given, over all replicas.
    pub budget: Option<Budget>,
    /// The highest latency, in seconds, of a target that holds the first replica.
    pub max_latency: Option<f64>,
    /// The names of the only tiers to use; those that there are not count for nothing.
    pub tiers: Option<Vec<String>>,
    /// The object's attributes; none: those of a file that was modified just now.
    #[serde(skip)]
    pub attributes: Option<Attributes>,
    /// Write only if the key names nothing yet.
    #[serde(skip)]
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
            max_latency: self.max_latency.or(usual.max_latency),
            tiers: self.tiers.or(usual.tiers),
            element: self.element.or(application.element),
            requirements: self.requirements.into_iter().chain(application.requirements.iter().copied()).collect(),
            attributes: self.attributes,
            create_new: self.create_new,
        }
    }

    /// What was asked for with an object when it was written, and holds for as long as it is there, whatever rules say.
    pub fn kept_with(object: &Object) -> PutOptions {
        let text = object.attributes.user.get(ASKED);
        text.and_then(|text| toml::from_str(text).ok()).unwrap_or_default()
    }

    /// What of it holds for as long as the object is there: all but when the call returns, and what the object is.
    pub fn lasting(&self) -> PutOptions {
        PutOptions { ack: None, element: None, attributes: None, create_new: false, ..self.clone() }
    }

    /// Keeps what lasts with an object's attributes.
    pub(crate) fn keep(&self, attributes: &mut Attributes) {
        attributes.user.remove(ASKED);
        if self.says_how() || self.replicas.is_some() {
            // What cannot be written does not hold for ever; numbers and names always can.
            attributes.user.extend(toml::to_string(self).ok().map(|text| (ASKED.to_owned(), text)));
        }
    }

    /// Whether it says how replicas are to be placed or encoded.
    pub(super) fn says_how(&self) -> bool {
        let constrained = self.budget.is_some() || self.max_latency.is_some() || self.tiers.is_some();
        !self.requirements.is_empty() || self.weights.is_some() || constrained
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
