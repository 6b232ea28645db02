//! The options of a write.

use serde::{Deserialize, Serialize};
use terrace_catalog::{Attributes, Expect};
use terrace_codec::Element;
use terrace_cost::Weights;
use terrace_plan::policy::{Asked, Budget};

use crate::config::Ack;
use crate::devices::Tiers;
use crate::{Error, Result};

/// The variable with the requirements for a program's files.
const REQUIRE_VARIABLE: &str = "TERRACE_REQUIRE";

/// The options of a write. Settings that are left open come from the store's rules and configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PutOptions {
    /// The number of replicas.
    pub replicas: Option<u8>,
    /// The acknowledgement for which the call waits; kept with a file for which each write waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
    /// The type of the bytes' elements, if it is known.
    #[serde(skip)]
    pub element: Option<Element>,
    /// The requirements for this object. Of two that conflict, the first one applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Asked>,
    /// The weights for choosing encodings. They override requirements.
    pub weights: Option<Weights>,
    /// The limit for the bytes stored for each byte given, over all replicas.
    pub budget: Option<Budget>,
    /// The highest latency, in seconds, of a target that holds the first replica.
    pub max_latency: Option<f64>,
    /// The names of the only tiers to use. A write with a name that no tier has fails. A tier that is removed after the write counts
    /// for nothing, as does an unknown name in [`Question::options`](crate::Question::options).
    pub tiers: Option<Vec<String>>,
    /// The object's attributes. If none, those of a file that was modified just now.
    #[serde(skip)]
    pub attributes: Option<Attributes>,
    /// Whether the write fails if the key exists already.
    #[serde(skip)]
    pub create_new: bool,
    /// Conditions of the write, which are checked in its commit. It fails with [`Error::Conflict`] or [`Error::NotFound`] if one does not
    /// hold.
    #[serde(skip)]
    pub expect: Vec<Expect>,
    /// The options of the level below. They decide each setting that these options leave open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<PutOptions>>,
}

impl PutOptions {
    /// Combines an operation's options with those of its application. Each setting comes from the highest level that decides
    /// it, either directly or by a requirement.
    ///
    /// ```
    /// use terrace::{Ack, PutOptions};
    ///
    /// let application = PutOptions { replicas: Some(3), ack: Some(Ack::Durable), ..PutOptions::default() };
    /// let dense = PutOptions { requirements: vec!["min_storage".parse()?], ..PutOptions::default() };
    /// // One replica, since `min_storage` says so; durable, since the operation leaves that open.
    /// let both = dense.over(&application);
    /// assert_eq!(both.below.as_deref(), Some(&application));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(mut self, application: &PutOptions) -> PutOptions {
        self.element = self.element.or(application.element);
        if *application != PutOptions::default() {
            let mut lowest = &mut self.below;
            while let Some(level) = lowest {
                lowest = &mut level.below;
            }
            *lowest = Some(Box::new(application.clone()));
        }
        self
    }

    /// Returns the options that the environment asks for a program's files: the requirements in `TERRACE_REQUIRE`, or in the file whose
    /// path it is, with commas or line ends between them.
    ///
    /// # Errors
    /// [`Error::Config`] for a requirement that is not understood, and for a file that cannot be read.
    pub fn of_environment() -> Result<PutOptions> {
        let wrong = |error: &dyn std::fmt::Display| Error::Config(format!("{REQUIRE_VARIABLE}: {error}"));
        let Some(value) = std::env::var_os(REQUIRE_VARIABLE) else { return Ok(PutOptions::default()) };
        let mut text = value.to_string_lossy().into_owned();
        if text.contains('/') {
            text = std::fs::read_to_string(&value).map_err(|error| wrong(&format!("reading {text}: {error}")))?;
        }
        let requirements = Asked::parse_all(&text.replace('\n', ",")).map_err(|error| wrong(&error))?;
        Ok(PutOptions { requirements, ..PutOptions::default() })
    }

    /// Returns these options and those of the levels below, the highest first.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &PutOptions> {
        std::iter::successors(Some(self), |level| level.below.as_deref())
    }

    /// Checks the values of these options.
    ///
    /// # Errors
    /// [`Error::Config`] if a level asks for no replicas, or for a latency that is no time.
    pub fn check(&self) -> Result<()> {
        if let Some(most) =
            self.levels().filter_map(|level| level.max_latency).find(|most| most.is_nan() || *most < 0.0)
        {
            return Err(Error::Config(format!("max_latency = {most} is no time; give seconds, such as 0.005")));
        }
        if self.levels().any(|level| level.replicas == Some(0)) {
            return Err(Error::Config("replicas = 0 stores nothing; ask for at least 1".into()));
        }
        Ok(())
    }

    /// Checks these options, and that the tiers exist.
    ///
    /// # Errors
    /// [`Error::Config`] as [`check`](Self::check), and for an unknown tier.
    pub(crate) fn check_for(&self, tiers: &Tiers) -> Result<()> {
        self.check()?;
        for names in self.levels().filter_map(|level| level.tiers.as_ref()) {
            if names.is_empty() {
                return Err(Error::Config("tiers = [] allows no tier; name some, or leave `tiers` out".into()));
            }
            names.iter().try_for_each(|name| tiers.level(name).map(drop))?;
        }
        Ok(())
    }

    /// Returns the options that apply as long as the object exists: all except those for the call itself and the attributes.
    pub fn lasting(&self) -> PutOptions {
        let below = self.below.as_ref().map(|level| Box::new(level.lasting()));
        let expect = Vec::new();
        PutOptions { ack: None, element: None, attributes: None, create_new: false, expect, below, ..self.clone() }
    }

    /// Returns the conditions of the commit that writes the object at `key`.
    pub(crate) fn conditions(&self, key: &[u8]) -> Vec<Expect> {
        let mut conditions = self.expect.clone();
        conditions.push(Expect::Free(key.to_vec()));
        if self.create_new {
            conditions.push(Expect::Absent(key.to_vec()));
        }
        conditions
    }

    /// Returns whether any option decides how replicas are placed or encoded.
    pub(crate) fn says_how(&self) -> bool {
        self.levels().any(|level| {
            let constrained = level.budget.is_some() || level.max_latency.is_some() || level.tiers.is_some();
            !level.requirements.is_empty() || level.weights.is_some() || constrained
        })
    }
}

/// Returns the element type that a file's name tells, if any.
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
