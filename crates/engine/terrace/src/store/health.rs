//! Reports how safe the store's data is.

use std::fs;
use std::time::{Duration, Instant, UNIX_EPOCH};

use terrace_catalog::Object;
use terrace_format::key::show;
use terrace_plan::snapshot::TierSet;
use terrace_system::Locked;
use terrace_system::clock::unix_seconds;

use super::Store;
use crate::Result;
use crate::home::{ScrubRecord, TargetNote};
use crate::report::{Finding, FindingCode, Health, HealthState, Scrubbed, Status, TierState, TierStatus, Unplanned};

/// All replicas should be verified once in this time, or once in two intervals of the schedule if that is longer.
const MAX_SCRUB_AGE_SECONDS: u64 = 30 * 86_400;
/// The lock of the process that runs `terrace node`.
const NODE_LOCK: &str = "node";
/// How long to wait for this lock.
const NODE_LOCK_WAIT: Duration = Duration::from_secs(1);

const PENDING_ADVICE: &str = "wait, or run `terrace sync`; `terrace status` shows the queue of each tier";
const NOT_DURABLE_ADVICE: &str = "wait, or run `terrace sync`";
const NO_ROOM_ADVICE: &str =
    "waiting does not help: free some space there, or raise the tier's capacity; then run `terrace sync`";
const BLOCKED_ADVICE: &str =
    "waiting does not help: mend that tier, then run `terrace sync`; or run `terrace repair`, which uses other tiers";

impl Store {
    /// Returns how safe the data is, according to the catalog, the targets and the last scrub. Reads no data.
    pub fn health(&self) -> Result<Health> {
        self.health_with(&self.status()?)
    }

    /// Like [`Store::health`], with a status that was just taken.
    pub fn health_with(&self, status: &Status) -> Result<Health> {
        let record = ScrubRecord::read(&self.engine.dir);
        let mut findings = self.pending_work(status)?;
        findings.extend(
            status
                .tiers
                .iter()
                .enumerate()
                .filter_map(|(level, tier)| tier_finding(tier, level + 1 == status.tiers.len())),
        );
        findings.extend(self.rule_findings());
        findings.extend(self.node_findings()?);
        findings.extend(self.log_finding());
        findings.extend(self.log_copy_findings());
        findings.extend(self.lost_finding()?);
        findings.extend(self.scrub_findings(&record)?);
        let node = self.engine.locks.is_held(NODE_LOCK);
        let mut health = Health { health: HealthState::Safe, node, last_scrub: record.last, findings: Vec::new() };
        health.add(findings);
        Ok(health)
    }

    /// Takes the lock of the process that runs `terrace node` on this store. None if another process has it.
    pub fn lock_node(&self) -> Result<Option<Locked>> {
        let begun = Instant::now();
        loop {
            // A process that checks whether the lock is held takes it for a moment.
            match self.engine.locks.at_once(NODE_LOCK)? {
                None if begun.elapsed() < NODE_LOCK_WAIT => std::thread::sleep(NODE_LOCK_WAIT / 20),
                locked => return Ok(locked),
            }
        }
    }

    /// Returns the sequence of the last commit, and of the last one that a power cut cannot undo.
    pub fn commits(&self) -> Result<(u64, u64)> {
        let (last, synced) = (self.engine.catalog.tail()?.sequence, self.engine.catalog.synced()?);
        // The sync mark is itself the last commit. Without a mark, nothing is known to be durable.
        Ok((last, if synced > 0 && synced + 1 >= last { last } else { synced }))
    }

    fn pending_work(&self, status: &Status) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut add_at = |health, code, message, advice| findings.push(Finding { code, health, message, advice });
        let is_blocked = |tier: &&TierStatus| matches!(tier.state, TierState::ReadOnly | TierState::Away);
        let blocked = status.tiers.iter().filter(is_blocked).find(|tier| tier.queue > 0);
        if status.owed > 0 {
            let (mut message, mut advice) = (
                format!("{} pending {}", status.owed, if status.owed == 1 { "replica" } else { "replicas" }),
                PENDING_ADVICE,
            );
            let mut health = HealthState::Working;
            if let Some(tier) = blocked {
                message +=
                    &format!(", {} of them for tier {}, which {}", tier.queue, tier.name, describe_blocked(tier));
                advice = BLOCKED_ADVICE;
            } else if let Some(tier) = self.engine.mover.find_tier_without_room()? {
                message += &format!(", at least one of them for tier {tier}, which has too little room");
                (health, advice) = (HealthState::Warning, NO_ROOM_ADVICE);
            }
            add_at(health, FindingCode::Owed, message, advice);
        }
        let mut add = |code, message, advice| add_at(HealthState::Working, code, message, advice);
        let (last, durable) = self.commits()?;
        if last > durable && self.is_shared() {
            // A synced replica elsewhere counts for what was acknowledged as durable.
            let message = format!("not every node has said that it has synced the last {} commits", last - durable);
            add(FindingCode::NotDurable, message, "wait; `terrace cluster status` shows how far each node is");
        } else if last > durable {
            let message = format!("a power cut could take the last {} commits", last - durable);
            add(FindingCode::NotDurable, message, if blocked.is_some() { BLOCKED_ADVICE } else { NOT_DURABLE_ADVICE });
        }
        if status.replanning.is_some() {
            let message = "the rules have changed, and objects are planned again".to_owned();
            add(FindingCode::Replanning, message, "wait; `terrace status` shows the progress");
        }
        if status.unplanned.waiting > 0 || status.unplanned.objects > 0 && blocked_tier(status).is_some() {
            findings.push(Finding {
                code: FindingCode::Waiting,
                health: HealthState::Warning,
                message: describe_unplanned(status.unplanned),
                advice: "bring back the tier that is away, or free some space; then run `terrace sync`",
            });
        } else if status.unplanned.objects > 0 && status.replanning.is_none() {
            findings.push(Finding {
                code: FindingCode::Replanning,
                health: HealthState::Working,
                message: describe_unplanned(status.unplanned),
                advice: "wait, or run `terrace sync`",
            });
        }
        Ok(findings)
    }

    fn rule_findings(&self) -> Vec<Finding> {
        let (rules, tiers) = (self.engine.planning.rules.now(), &self.engine.tiers);
        let unmet = rules.rules.iter().filter_map(|rule| {
            let allowed = rule.tiers.as_deref().map_or(TierSet::ALL, |names| tiers.named(names));
            let (wanted, possible) = (usize::from(rule.replicas?), tiers.domains(allowed, false));
            let message = format!(
                "the rule for {:?} wants {wanted} replicas, and its tiers are {possible} failure {}",
                rule.prefix,
                if possible == 1 { "domain" } else { "domains" }
            );
            let advice = "add a target, let the rule name more tiers, or lower its number of replicas";
            let code = FindingCode::RuleUnmet;
            (possible < wanted).then_some(Finding { code, health: HealthState::Warning, message, advice })
        });
        unmet.collect()
    }

    fn node_findings(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let warning = |code, message, advice| Finding { code, health: HealthState::Warning, message, advice };
        for node in self.nodes()?.iter().filter(|node| !node.targets.is_empty()) {
            if !node.is_there {
                let message = format!("node {} does not follow the log", node.name);
                let advice = "start it; if it does not come back, run `terrace node remove`; after ten minutes, other nodes make what it holds";
                findings.push(warning(FindingCode::NodeAway, message, advice));
            } else if node.targets.iter().any(|target| target.is_doubtful) {
                let message = format!("node {} looks for what a loss of power has taken", node.name);
                findings.push(warning(FindingCode::TargetDoubtful, message, "wait, and keep the other nodes running"));
            }
        }
        Ok(findings)
    }

    fn log_finding(&self) -> Option<Finding> {
        if self.engine.catalog.is_shared() {
            // Its servers keep several copies.
            return None;
        }
        let journal = &self.engine.journal;
        let is_there = journal.log_copies().chain(journal.service_copies()).any(|device| device.target.ready().is_ok());
        let has_persistent = self.engine.tiers.tiers.iter().any(|tier| tier.persistent);
        (has_persistent && !is_there).then(|| Finding {
            code: FindingCode::LogOneCopy,
            health: HealthState::Warning,
            message: format!("the only copy of the commit log is in {}", self.engine.dir.display()),
            advice: "add a persistent tier of directories or of a service, or bring back the one that is away",
        })
    }

    fn log_copy_findings(&self) -> impl Iterator<Item = Finding> {
        let copies = self.engine.journal.service_copies();
        let behind = copies.filter(|device| TargetNote::log_behind(&self.engine.dir, device.id).holds());
        behind.map(|device| Finding {
            code: FindingCode::LogCopyBehind,
            health: HealthState::Warning,
            message: format!("the copy of the commit log on {} lacks the last changes", device.path.display()),
            advice: "make room there, or make it writable and reachable, and run `terrace sync`: until then, `terrace rebuild --from` gives an \
                     older state of the store",
        })
    }

    fn lost_finding(&self) -> Result<Option<Finding>> {
        let lost = self.find_lost()?;
        let Some(first) = lost.first() else { return Ok(None) };
        let more = if lost.len() > 1 { format!(", and {} more", lost.len() - 1) } else { String::new() };
        Ok(Some(Finding {
            code: FindingCode::Lost,
            health: HealthState::Damaged,
            message: format!("no good replica is left of bytes of {}{more}", show(first)),
            advice: "run `terrace repair`; put the objects again that it names, or remove them",
        }))
    }

    /// Returns the keys of the objects that are known to have lost bytes: a read, a scrub or an opening found no good replica of these.
    pub fn find_lost(&self) -> Result<Vec<Vec<u8>>> {
        let mut lost = Vec::new();
        for (key, version) in self.engine.reader.lost.all() {
            // Others were written or removed since.
            let object = self.engine.catalog.object(&key)?;
            if object.is_some_and(|object| (object.id, object.generation) == version) {
                lost.push(key);
            }
        }
        lost.sort_unstable();
        Ok(lost)
    }

    /// Returns whether an object is known to have lost bytes.
    pub fn has_lost(&self, key: &[u8], object: &Object) -> bool {
        self.engine.reader.lost.has(key, object)
    }

    fn scrub_findings(&self, record: &ScrubRecord) -> Result<Vec<Finding>> {
        use HealthState::{Damaged, Warning};
        let mut findings = Vec::new();
        let last = record.last.as_ref();
        let count = |of: fn(&Scrubbed) -> u64| last.map_or(0, |last| of(&last.found)) + of(&record.found);
        let mut add = |count: u64, code, health, what: &str, advice| {
            if count > 0 {
                let message = match code {
                    // Writes, moves and evictions leave such extents, too, and others of them were changed since.
                    FindingCode::OneCopy | FindingCode::FewCopies => what.to_owned(),
                    _ => format!("the last scrub found {count} {what}"),
                };
                findings.push(Finding { code, health, message, advice });
            }
        };
        let mut unrepaired = count(|found| found.bad.saturating_sub(found.repaired));
        for bad in record.unreplaced() {
            // Its object was put again or removed since, or a read has found it, too, and it was replaced.
            unrepaired = unrepaired.saturating_sub(u64::from(!bad.is_named(&self.engine.catalog)?));
        }
        let (what, advice) = ("bad replicas that were not replaced", "run `terrace repair`");
        add(unrepaired, FindingCode::BadReplicas, Warning, what, advice);
        let advice = "add a tier, or free some space, and run `terrace repair`; `terrace scrub` counts them";
        let what = "some extents have one replica and are to have more";
        add(count(|found| found.one_copy), FindingCode::OneCopy, Warning, what, advice);
        let what = "some extents have more than one replica and are to have more than these";
        add(count(|found| found.few_copies), FindingCode::FewCopies, Warning, what, advice);
        let what = "replicas in adopted files that their owners have changed";
        let advice = "run `terrace scrub`, which names their objects, and `terrace adopt` or put these again";
        add(count(|found| found.changed), FindingCode::FilesChanged, Warning, what, advice);
        let what = "shared frames with a wrong number of owners";
        let advice = "run `terrace rebuild`, which counts them again, and then `terrace scrub`";
        add(count(|found| found.miscounted), FindingCode::Miscounted, Warning, what, advice);
        let what = "damaged files of the commit log";
        let advice = "run `terrace rebuild`, which makes it whole, and then `terrace scrub`";
        add(count(|found| found.log_damaged), FindingCode::LogDamaged, Damaged, what, advice);
        let (what, advice) =
            ("damaged files of copies of the commit log", "run `terrace repair`, which writes them again");
        add(count(|found| found.log_copies_damaged), FindingCode::LogCopyDamaged, Warning, what, advice);
        let since = last.map(|last| last.finished).or_else(|| self.made_at());
        let age = since.map_or(0, |since| unix_seconds().saturating_sub(since));
        if age > MAX_SCRUB_AGE_SECONDS.max(record.interval.saturating_mul(2)) {
            findings.push(Finding {
                code: FindingCode::ScrubOld,
                health: HealthState::Warning,
                message: format!("the replicas were not verified for {} days", age / 86_400),
                advice: "run `terrace scrub`, or `terrace node`, which does it by itself",
            });
        }
        Ok(findings)
    }

    /// Returns when the store was created, in seconds since 1970.
    fn made_at(&self) -> Option<u64> {
        let made = fs::metadata(self.engine.dir.join("store")).and_then(|file| file.modified()).ok()?;
        made.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    }
}

/// Returns a tier that takes no replica because it is away or can be read only.
fn blocked_tier(status: &Status) -> Option<&TierStatus> {
    status.tiers.iter().find(|tier| matches!(tier.state, TierState::ReadOnly | TierState::Away))
}

fn describe_unplanned(unplanned: Unplanned) -> String {
    let objects = if unplanned.objects == 1 { "1 object does" } else { &format!("{} objects do", unplanned.objects) };
    format!("{objects} not follow the current rules yet")
}

fn describe_blocked(tier: &TierStatus) -> &'static str {
    if tier.state == TierState::ReadOnly { "can be read only" } else { "cannot be reached" }
}

/// Returns the finding about a tier, if any. A tier above the last one is full in normal use, and evicts.
fn tier_finding(tier: &TierStatus, is_last: bool) -> Option<Finding> {
    let name = &tier.name;
    let (code, message, advice) = match tier.state {
        TierState::Away => {
            let advice =
                "mount it, or bring its service or its node back; `terrace tiers renew` if its content is lost";
            (FindingCode::TierAway, format!("tier {name} {}", describe_blocked(tier)), advice)
        }
        TierState::ReadOnly => {
            let advice = "make its file system writable again";
            (
                FindingCode::TierReadOnly,
                format!("tier {name} {}: its file system is read-only", describe_blocked(tier)),
                advice,
            )
        }
        TierState::Full if is_last => {
            let advice = "remove objects, raise the tier's capacity, or add a tier";
            (FindingCode::NearlyFull, format!("tier {name}, the last one, is full up to its high watermark"), advice)
        }
        _ => return None,
    };
    Some(Finding { code, health: HealthState::Warning, message, advice })
}
