//! Inputs in a service that keeps blobs.

use anyhow::{Context, Result, bail};
use terrace::sparse::Dense;
use terrace::tier::{Blobs, Service};
use terrace::{Attributes, OwnPlaces, Store};

use super::{Input, InputPlace, check_finished, checked, note_unfinished};
use crate::at_once::{STAGING_THREADS, map_at_once};
use crate::staging::unfinished::is_unfinished;

pub struct InputBucket {
    blobs: Blobs,
    service: String,
}

impl InputBucket {
    pub fn new(store: &Store, service: &Service) -> Result<InputBucket> {
        let blobs = Blobs::new(service).with_context(|| format!("opening {service}"))?;
        OwnPlaces::of(store).check_service(service)?;
        Ok(InputBucket { blobs, service: service.to_string() })
    }

    fn input(&self, name: String, length: u64) -> Input<'_> {
        Input {
            key: name.clone().into_bytes(),
            attributes: Attributes::now(),
            length,
            open: Box::new(move || Ok(Box::new(Dense(self.blobs.reader(&name, length))))),
        }
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        self.blobs.length(name).with_context(|| format!("looking at {name} in {}", self.service))
    }

    /// Lists the blobs below a name.
    fn list(&self, name: &str) -> Result<Vec<String>> {
        let listed = self.blobs.list(&format!("{name}/"));
        let names = listed.with_context(|| format!("listing {name} in {}", self.service))?;
        if names.is_empty() {
            bail!("{} has nothing at or below {name:?}; name what is there", self.service);
        }
        Ok(names)
    }

    fn find_below(&self, name: Option<&[u8]>) -> Result<Vec<Result<Input<'_>>>> {
        let name = std::str::from_utf8(name.unwrap_or_default()).context("blobs have names in UTF-8")?;
        check_finished(name.as_bytes()).with_context(|| format!("reading {name} in {}", self.service))?;
        if let Some(length) = if name.is_empty() { None } else { self.length(name)? } {
            return Ok(vec![Ok(self.input(name.to_owned(), length))]);
        }
        let (unfinished, names): (Vec<String>, Vec<String>) =
            self.list(name)?.into_iter().partition(|name| is_unfinished(name.as_bytes()));
        unfinished.iter().for_each(|name| note_unfinished(name.as_bytes()));
        let lengths = map_at_once(STAGING_THREADS, &names, |name| self.length(name));
        let input = |(name, length): (String, Result<Option<u64>>)| match length {
            Ok(length) => length.map(|length| checked(self.input(name, length))),
            Err(error) => Some(Err(error)),
        };
        Ok(names.into_iter().zip(lengths).filter_map(input).collect())
    }
}

impl InputPlace for InputBucket {
    fn find(&self, _: &Store, name: Option<&[u8]>) -> Vec<Result<Input<'_>>> {
        self.find_below(name).unwrap_or_else(|error| vec![Err(error)])
    }
}
