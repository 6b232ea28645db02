//! Taking requests from connections, as tasks for a pass.

use super::RedisWorker;
use crate::commands::Verb;
use crate::executor::{Action, RedisTask, WatchedKey};
use crate::memcached::MemcachedCommand;
use crate::request::Words;
use crate::resp::Resp;
use crate::session::Step;

impl RedisWorker {
    /// Takes a connection's next request, and adds its tasks. Returns false if there is none now.
    pub(super) fn prepare(&mut self, client: usize, tasks: &mut Vec<RedisTask>) -> bool {
        let Some(connection) = self.clients.get_mut(&client) else { return false };
        if !connection.may_go_on() {
            return false;
        }
        if let Some(task) = connection.postponed.pop_front() {
            tasks.push(task);
            return true;
        }
        match connection.requests.next(connection.session.is_trusted) {
            Ok(Some(request)) => {
                let step = connection.session.take(request);
                self.add_step(client, step, tasks);
                true
            }
            Ok(None) => {
                connection.has_requests = false;
                false
            }
            Err(last) => {
                connection.has_requests = false;
                connection.session.is_ending = true;
                tasks.extend(self.task(client, Action::Reply(last)));
                false
            }
        }
    }

    /// Adds the tasks of a step. First carries out those before it where the step depends on their changes.
    fn add_step(&mut self, client: usize, step: Step, tasks: &mut Vec<RedisTask>) {
        match step {
            Step::Reply(reply) => tasks.extend(self.task(client, Action::Reply(reply))),
            Step::Run(verb, words) => {
                let may_wait = verb.waits.is_some();
                tasks.extend(self.task(client, Action::Run(verb, words)));
                if may_wait {
                    // What follows must not be carried out before it.
                    self.finish(tasks);
                }
            }
            Step::Transaction(commands, watched) => self.add_transaction(client, commands, watched, tasks),
            Step::Watch(names) => {
                self.finish(tasks);
                let reply = self.watch(client, &names);
                tasks.extend(self.task(client, Action::Reply(reply)));
            }
            Step::Item(command) => self.add_item(client, command, tasks),
            Step::Unblock(id, reply) => {
                self.finish(tasks);
                let has_waited = self.place_of(id).is_some_and(|place| self.shared.waiters.unblock(place, reply));
                tasks.extend(self.task(client, Action::Reply(Resp::Number(has_waited.into()))));
            }
            Step::Close(id) => {
                self.shared.mailboxes.iter().for_each(|mailbox| mailbox.close(id));
                tasks.extend(self.task(client, Action::Reply(Resp::OK_REPLY)));
            }
        }
    }

    fn add_transaction(
        &mut self,
        client: usize,
        commands: Vec<(&'static Verb, Words)>,
        watched: Vec<WatchedKey>,
        tasks: &mut Vec<RedisTask>,
    ) {
        let selects = commands.iter().any(|(verb, _)| verb.name == "select");
        let watches = !watched.is_empty();
        let transaction = self.task(client, Action::Transaction(commands, watched));
        // Watched keys are compared with the store, which must have all earlier changes.
        if watches {
            self.finish(tasks);
        }
        tasks.extend(transaction);
        // What follows may use another database.
        if selects {
            self.finish(tasks);
        }
    }

    fn add_item(&mut self, client: usize, mut command: MemcachedCommand, tasks: &mut Vec<RedisTask>) {
        let touches = command.take_touches().into_iter();
        tasks.extend(touches.filter_map(|touch| self.task(client, Action::Item(touch))));
        // The store numbers changes when it gets them.
        if command.needs_unique() {
            self.finish(tasks);
        }
        tasks.extend(self.task(client, Action::Item(command)));
    }

    /// Watches keys for a client. Returns the reply.
    fn watch(&mut self, client: usize, names: &Words) -> Resp {
        let Some(connection) = self.clients.get_mut(&client) else { return Resp::OK_REPLY };
        match self.shared.executor.watch(connection.session.db, names) {
            Ok(keys) => {
                connection.session.watch(keys);
                Resp::OK_REPLY
            }
            Err(problem) => Resp::Error(problem.text()),
        }
    }

    /// Returns the task of an action for a client; none if the client has gone.
    fn task(&self, client: usize, action: Action) -> Option<RedisTask> {
        let session = &self.clients.get(&client)?.session;
        Some(RedisTask { client, db: session.db, protocol: session.protocol, action })
    }
}
