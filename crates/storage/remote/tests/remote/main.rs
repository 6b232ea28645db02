//! Targets of another node: the conformance suite, and what breaks, lies or goes wrong between the two.

#![allow(clippy::unwrap_used, clippy::panic)]

mod broken;
mod clients;
mod hostile;
mod node;
mod proxy;
mod restart;

use terrace_remote::NodeKind;
use terrace_tier::conformance::{self, Outage, Site};

use node::{Node, Transport};

fn site(transport: Transport) -> Site {
    let node = Node::start(transport);
    let stores = node.folder.path().join("stores");
    std::fs::create_dir(&stores).unwrap();
    Site { settings: node.settings(), stores, guard: Box::new(node) }
}

#[test]
fn it_passes_the_conformance_suite_without_tls() {
    conformance::check(&NodeKind, || site(Transport::Plain));
}

#[test]
fn it_passes_the_conformance_suite_with_tls() {
    conformance::check(&NodeKind, || site(Transport::Tls));
}

#[test]
fn it_survives_that_its_node_ends_and_starts_again() {
    for transport in [Transport::Plain, Transport::Tls] {
        let mut node = Node::start(transport);
        let stores = node.folder.path().join("stores");
        std::fs::create_dir(&stores).unwrap();
        let site = Site { settings: node.settings(), stores, guard: Box::new(()) };
        conformance::check_outage(&NodeKind, site, |outage| match outage {
            Outage::Begins => node.stop(),
            Outage::Ends => node.restart(),
        });
    }
}

#[test]
fn it_survives_that_the_disk_of_its_node_vanishes_for_a_while() {
    let node = Node::start(Transport::Plain);
    let (disk, elsewhere) = (node.disk(), node.folder.path().join("elsewhere"));
    let stores = node.folder.path().join("stores");
    std::fs::create_dir(&stores).unwrap();
    let site = Site { settings: node.settings(), stores, guard: Box::new(()) };
    conformance::check_outage(&NodeKind, site, |outage| match outage {
        Outage::Begins => std::fs::rename(&disk, &elsewhere).unwrap(),
        Outage::Ends => std::fs::rename(&elsewhere, &disk).unwrap(),
    });
}
