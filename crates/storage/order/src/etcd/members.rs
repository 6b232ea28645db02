//! [`Members`]: calls to the members of an etcd cluster, with a deadline, and again on another member if one fails.
//!
//! Each member has its own client: one client for all would choose by itself which member gets a call.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, ConnectOptions, Error, Identity, KvClient, LeaseClient, TlsOptions, Txn, TxnResponse,
    WatchClient,
};
use rustix_futex_sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use super::version;
use crate::{EtcdAccess, OrderError};

/// A member that takes longer is asked no more. etcd's elections take about a second.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// An answer has at most this many bytes. The greatest are those to a group of records of 1 MiB each.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A member's clients, over one connection.
#[derive(Clone)]
pub(super) struct Member {
    pub kv: KvClient,
    pub lease: LeaseClient,
    pub watch: WatchClient,
}

/// All members. The order of their addresses is the order in which they are tried.
pub(super) struct Members {
    addresses: Vec<String>,
    /// The connected ones. Locked for a moment only: connecting happens outside.
    connected: Mutex<Vec<Option<Member>>>,
    /// The member that answered last, or the one after that which did not. Relaxed, since a wrong one costs an attempt only.
    preferred: AtomicUsize,
    /// For how long a call is tried.
    patience: Duration,
    access: EtcdAccess,
    /// The highest revision of an answer. A later answer with a lower one comes from servers that have lost data. Relaxed, since
    /// it is read before a call is sent and raised after the call was answered, and nothing else depends on it.
    newest: AtomicI64,
}

impl Members {
    pub(super) fn new(addresses: Vec<String>, patience: Duration, access: EtcdAccess) -> Members {
        let connected = Mutex::new(vec![None; addresses.len()]);
        // Nodes begin with different members.
        let preferred = AtomicUsize::new(random() as usize % addresses.len().max(1));
        Members { addresses, connected, preferred, patience, access, newest: AtomicI64::new(0) }
    }

    pub(super) fn addresses(&self) -> String {
        self.addresses.join(", ")
    }

    /// Carries out a transaction.
    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnResponse, OrderError> {
        let answer = self.txn_at(txn).await?;
        answer.ok_or_else(|| OrderError::Damaged { what: "etcd says that the present is compacted".into() })
    }

    /// Carries out a transaction that reads at a revision. `None` if that is compacted.
    pub(super) async fn txn_at(&self, txn: Txn) -> Result<Option<TxnResponse>, OrderError> {
        let seen = self.newest.load(Ordering::Relaxed);
        let answer = self.call(async |mut member| compacted_to_none(member.kv.txn(txn.clone()).await)).await?;
        let found = answer.as_ref().map(revision);
        match found {
            Some(found) if found < seen => {
                Err(OrderError::RanBack { what: format!("etcd is at revision {found}, and was at {seen}") })
            }
            _ => {
                self.newest.fetch_max(found.unwrap_or(0), Ordering::Relaxed);
                Ok(answer)
            }
        }
    }

    /// Makes a call to the preferred member, and to the others until one answers or the patience ends. So the call may happen several
    /// times, and a failed attempt may have its effect later.
    pub(super) async fn call<T>(&self, call: impl AsyncFn(Member) -> Result<T, Error>) -> Result<T, OrderError> {
        let end = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        let mut at = self.preferred.load(Ordering::Relaxed);
        loop {
            let attempt = async {
                let member = self.member(at).await?;
                call(member).await.map_err(|e| self.classify(at, &e))
            };
            let failed = match timeout(ATTEMPT_TIMEOUT, attempt).await {
                Ok(Ok(value)) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(value);
                }
                Ok(Err(failed)) => failed,
                Err(_) => self.no_answer(at, "it takes too long"),
            };
            if !matches!(failed, OrderError::NoAnswer { .. }) {
                return Err(failed);
            }
            // A connection that lost an answer may lose all, without an error that ends it.
            self.disconnect(at);
            at = self.after(at);
            // The next call must not begin with this member, even if there is no time to try another one.
            self.preferred.store(at, Ordering::Relaxed);
            if Instant::now() >= end {
                return Err(failed);
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    pub(super) fn after(&self, at: usize) -> usize {
        (at + 1) % self.addresses.len().max(1)
    }

    /// Returns the clients of a member, connected, and of a version that may keep a log.
    pub(super) async fn member(&self, at: usize) -> Result<Member, OrderError> {
        if let Some(member) = self.connected.lock().get(at).cloned().flatten() {
            return Ok(member);
        }
        let address = self.address(at);
        let options = self.options(address.starts_with("https://"));
        let failed = |e| self.classify(at, &e);
        let mut client = Client::connect([address], Some(options)).await.map_err(failed)?;
        let status = client.status().await.map_err(failed)?;
        version::check(status.version()).map_err(|reason| OrderError::Server {
            server: address.into(),
            version: status.version().into(),
            reason,
        })?;
        let member = Member {
            kv: client.kv_client().max_decoding_message_size(MAX_ANSWER_BYTES),
            lease: client.lease_client(),
            watch: client.watch_client().max_decoding_message_size(MAX_ANSWER_BYTES),
        };
        if let Some(place) = self.connected.lock().get_mut(at) {
            *place = Some(member.clone());
        }
        Ok(member)
    }

    fn options(&self, is_secure: bool) -> ConnectOptions {
        let EtcdAccess { authorities, identity, user } = &self.access;
        // A member without a leader must say so: it would keep watches open, and silent.
        let mut options = ConnectOptions::new().with_connect_timeout(ATTEMPT_TIMEOUT).with_require_leader(true);
        if let Some((name, password)) = user {
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        if is_secure {
            let mut tls = TlsOptions::new();
            if let Some(authorities) = authorities {
                tls = tls.ca_certificate(Certificate::from_pem(authorities));
            }
            if let Some((certificate, key)) = identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        options
    }

    /// Makes the next call of a member use a new connection.
    pub(super) fn disconnect(&self, at: usize) {
        if let Some(place) = self.connected.lock().get_mut(at) {
            *place = None;
        }
    }

    fn address(&self, at: usize) -> &str {
        self.addresses.get(at).map_or("", String::as_str)
    }

    fn no_answer(&self, at: usize, reason: impl std::fmt::Display) -> OrderError {
        OrderError::NoAnswer { reason: format!("{}: {reason}", self.address(at)) }
    }

    /// Tells errors that another attempt may not have from those that it will have.
    pub(super) fn classify(&self, at: usize, error: &Error) -> OrderError {
        match error {
            Error::GRpcStatus(status) => match status.code() {
                Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Unauthenticated => {
                    OrderError::Refused { reason: format!("{}: {}", self.address(at), status.message()) }
                }
                Code::ResourceExhausted if status.message().contains("space exceeded") => {
                    OrderError::Full { server: self.address(at).into() }
                }
                _ => self.no_answer(at, status.message()),
            },
            Error::InvalidArgs(_) | Error::InvalidUri(_) => OrderError::Refused { reason: error.to_string() },
            _ => self.no_answer(at, error),
        }
    }
}

pub(super) fn compacted_to_none<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::GRpcStatus(status))
            if status.code() == Code::OutOfRange && status.message().contains("compacted") =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

pub(super) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, |header| header.revision())
}

/// A random number, not for secrets.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Between half of a pause and all of it, so that nodes that failed together do not try again together.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause / 2 + pause.mul_f64((random() % 1000) as f64 / 2000.0)
}
