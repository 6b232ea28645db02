//! `kind = "node"`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_tier::{Capabilities, OpenedTarget, Target, TargetFound, TargetKind, TargetOwner, TargetSettings};

use crate::connection::Node;
use crate::options::Options;
use crate::remote::{Remote, wrong_answer};
use crate::wire::Owner;

/// Targets that other nodes serve.
pub struct NodeKind;

impl TargetKind for NodeKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities { remote: true, open_segments: true, ends_hung_calls: true, ..Capabilities::default() }
    }

    fn node(&self, settings: &TargetSettings) -> Option<String> {
        let options = Options::read(settings).ok()?;
        options.host.rsplit_once(':').map(|(name, _)| name.to_owned())
    }

    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        Options::read(settings).map(drop)
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        let options = Options::read(settings).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let mut answer = Vec::new();
        let node = Node::new(options, String::new())?;
        node.ask_for_marker(&mut answer)?;
        let place = settings.path.display().to_string();
        match serde_json::from_slice::<Option<Owner>>(&answer).map_err(|_| wrong_answer(&place))? {
            None => Ok(()),
            Some(owner) => {
                let owner = owner.mark().replace('\n', " ");
                let reason = format!("{place} belongs to another store or target ({owner}); give each its own");
                Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
            }
        }
    }

    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        OpenedTarget::open(Arc::new(Remote::new(settings, owner)?), owner)
    }

    fn open_unseen(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        Ok(OpenedTarget { target: Arc::new(Remote::new(settings, owner)?), trouble: None })
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        let target = Remote::new(settings, owner)?;
        Ok(match target.find_owner()? {
            Some(found) if found.mark() == owner.mark() => TargetFound::Own { used: target.space()?.used },
            Some(found) => TargetFound::Another(found.mark()),
            None => TargetFound::Nothing,
        })
    }

    /// The node removes frames and marker in one request, the marker last. The note goes before: if this is interrupted, the target is
    /// found by its marker, and removed when this is repeated.
    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        let target = Remote::new(settings, owner)?;
        let is_own = target.find_owner()?.is_some_and(|found| found.mark() == owner.mark());
        owner.forget_made()?;
        if is_own {
            target.remove()?;
        }
        Ok(Vec::new())
    }
}
