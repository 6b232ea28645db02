//! The laws of the shared log, which hold after each run.

use std::collections::HashSet;

use terrace_catalog::Catalog;
use terrace_format::{Place, Proposal, TargetId};
use terrace_order::Order;

use crate::clients::Told;
use crate::disk::overlap;
use crate::node::STORE_ID;
use crate::reference::Reference;
use crate::world::{NODE_COUNT, World};

/// The letters and keys of records that a store without a shared log does not have, or whose value holds the time.
const LETTERS_NOT_COMPARED: [u8; 4] = *b"cifg";
const KEYS_NOT_COMPARED: [&[u8]; 3] = [b"mf", b"mj", b"mp"];
/// Everything settles within this number of rounds.
const MAX_ROUNDS: usize = 200;

impl World {
    /// Lets everything settle, and checks the laws.
    pub fn end(&mut self) {
        self.settle();
        let reference = Reference::of(&self.folder.path().join("reference"), &self.logs[0].all());
        (0..reference.repeated).for_each(|_| self.counts.note("steps repeated in the log"));
        (0..reference.kept).for_each(|_| self.counts.note("replicas kept"));
        (0..reference.dropped).for_each(|_| self.counts.note("replicas dropped"));
        (0..reference.members.floors_raised).for_each(|_| self.counts.note("floors raised"));
        (0..reference.members.floors_refused).for_each(|_| self.counts.note("floors refused"));
        self.check_nodes(&reference);
        self.check_frames(&reference);
        self.check_answers(&reference);
        self.check_refusals();
    }

    /// All nodes do their duties until all has been carried out and all dead places are given back.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < MAX_ROUNDS, "it does not settle");
            for node in 0..NODE_COUNT {
                while !self.nodes[node].is_up() || self.nodes[node].slot() < self.logs[node].head().unwrap() {
                    self.follow_up_to(node, 100);
                }
                self.nodes[node].open.clear();
            }
            let has_dead = |node: usize| self.nodes[node].catalog().dead_places(node as TargetId).unwrap().bytes() > 0;
            if round > 10 && !(0..NODE_COUNT).any(has_dead) {
                return;
            }
            for node in 0..NODE_COUNT {
                self.report(node);
                self.sync(node);
                self.keep(node);
                self.free(node);
            }
            for _ in 0..NODE_COUNT * 10 {
                (0..NODE_COUNT).for_each(|node| self.send(node));
                self.deliver();
            }
        }
    }

    /// Checks that a place which is given back is neither named by the index of a node nor read by a client.
    pub fn check_freed(&self, target: TargetId, place: Place) {
        for number in (0..NODE_COUNT).filter(|node| self.is_live(*node)) {
            let node = &self.nodes[number];
            let is_it = |named: &Place| overlap(*named, place);
            for (key, named) in named_places(node.catalog(), target) {
                assert!(!is_it(&named), "node {number} names {place:?} of target {target} under {key:?}");
            }
            let read = node.open.iter().flat_map(|open| &open.replicas).filter(|replica| replica.target == target);
            assert!(!read.map(|replica| replica.place).any(|p| is_it(&p)), "a client of node {number} reads {place:?}");
        }
    }

    /// A frame that was ever synced, and is still named, has a replica.
    fn check_frames(&self, reference: &Reference) {
        let catalog = self.nodes[0].catalog();
        catalog
            .each_object(b"", |key, object, extents| {
                for extent in extents {
                    let is_there =
                        |&(target, place): &(TargetId, Place)| self.nodes[usize::from(target)].disk.holds(place);
                    let named = extent.replicas.iter().map(|replica| (replica.target, replica.place));
                    let all = &reference.replicas[&(object.id, extent.frame())];
                    let was_safe = all.iter().any(|replica| self.ever_synced.contains(replica));
                    let named: HashSet<_> = named.collect();
                    assert!(!was_safe || named.iter().any(is_there), "{key:?}: {named:?} of {all:?} are gone");
                }
                Ok::<_, terrace_catalog::Error>(true)
            })
            .unwrap();
    }

    /// A step that is said not to be in the log never comes into it.
    fn check_refusals(&self) {
        for record in &self.logs[0].all() {
            let Proposal { incarnation, number, .. } = Proposal::decode(record, STORE_ID).unwrap();
            let came = |refused: &(u64, u64)| refused.0 == incarnation && refused.1 <= number;
            assert!(!self.refused.iter().any(came), "number {number} of incarnation {incarnation} was refused");
        }
    }

    /// The indexes of all nodes are equal at equal slots, and so is that of a store that had the same changes without a shared log.
    fn check_nodes(&self, reference: &Reference) {
        let first = self.nodes[0].catalog();
        for node in &self.nodes[1..] {
            assert_eq!(node.catalog().followed().unwrap(), first.followed().unwrap());
            assert!(node.catalog().dump().unwrap() == first.dump().unwrap(), "the indexes of two nodes differ");
        }
        let mut decided: Vec<_> = reference.verdicts.iter().collect();
        decided.sort_by_key(|(_, (slot, _))| *slot);
        for ((session, number), (slot, meant)) in decided {
            let verdict = first.verdict(*session, *number).unwrap();
            let is_meant = verdict.as_ref().is_none_or(|verdict| verdict == meant);
            assert!(is_meant, "change {number} of session {session} at {slot}: {verdict:?}, not {meant:?}");
        }
        assert!(plain_dump(first) == plain_dump(&reference.catalog), "the index differs from one without a shared log");
    }

    /// Each verdict that a client was told is that of its change in the log, where this came once; and no change takes a place before
    /// one that was answered before it was asked for.
    fn check_answers(&self, reference: &Reference) {
        for Told { session, number, verdict, after } in &self.told {
            let (slot, meant) = &reference.verdicts[&(*session, *number)];
            assert_eq!(meant, verdict, "of change {number} of session {session}");
            assert!(slot > after, "change {number} of session {session} is at {slot}, and {after} was answered before");
        }
    }
}

fn plain_dump(catalog: &Catalog) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = catalog.dump().unwrap();
    records.retain(|(key, _)| !LETTERS_NOT_COMPARED.contains(&key[0]) && !KEYS_NOT_COMPARED.contains(&key.as_slice()));
    records
}

/// The places on a target that objects name, with their keys.
fn named_places(catalog: &Catalog, target: TargetId) -> Vec<(Vec<u8>, Place)> {
    let mut places = Vec::new();
    catalog
        .each_object(b"", |key, _, extents| {
            let replicas = extents.iter().flat_map(|extent| &extent.replicas).filter(|r| r.target == target);
            places.extend(replicas.map(|replica| (key.to_vec(), replica.place)));
            Ok::<_, terrace_catalog::Error>(true)
        })
        .unwrap();
    places
}
