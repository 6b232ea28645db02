//! [`TaskServer`]: serves each connection in a task of its own.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use terrace_system::Address;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::listener::{ACCEPT_BACKLOG, ACCEPT_RETRY_DELAY, ListenError, Reach, listen_tcp};

/// How long a thread that waits for the store may go on when the server has ended.
const LAST_WAIT_TIME: Duration = Duration::from_secs(1);

/// How a [`TaskServer`] serves.
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// The name of the threads.
    pub name: &'static str,
    /// Threads that carry out tasks; `None` makes one for each core.
    pub threads: Option<usize>,
    /// The largest number of threads that wait for the store. More calls wait for these.
    pub max_waiting_threads: usize,
    /// The largest number of connections. Others wait.
    pub max_connections: u32,
    /// How long connections that have begun may take when the server ends.
    pub drain_time: Duration,
}

/// Tells a connection when the server ends.
#[derive(Clone, Debug)]
pub struct Ending(watch::Receiver<bool>);

impl Ending {
    /// Waits until the server ends.
    pub async fn wait(&mut self) {
        // `wait_for` returns a guard that locks the channel, so it is dropped at once. An error means that the server has gone.
        drop(self.0.wait_for(|is_ending| *is_ending).await);
    }
}

/// A running server that serves each connection in a task of its own. Dropping it ends it.
pub struct TaskServer {
    address: SocketAddr,
    end: watch::Sender<bool>,
    /// The threads and the task that accepts, until the server ends.
    running: Option<(Runtime, JoinHandle<()>)>,
}

impl TaskServer {
    /// Serves the connections to a TCP port. `serve` answers the requests of one, and ends soon when the server ends.
    ///
    /// # Errors
    /// If the system refuses the address or threads, or machines could connect that may not.
    pub fn begin<T: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        reach: Reach,
        options: TaskOptions,
        serve: impl Fn(TcpStream, Ending) -> T + Send + Sync + 'static,
    ) -> Result<TaskServer, ListenError> {
        let (listener, address) = listen_tcp(address, reach)?;
        let refused = |source| ListenError::Refused { address: Address::Tcp(address), source };
        let mut builder = runtime::Builder::new_multi_thread();
        builder.enable_io().enable_time().thread_name(options.name).max_blocking_threads(options.max_waiting_threads);
        if let Some(threads) = options.threads {
            builder.worker_threads(threads);
        }
        let runtime = builder.build().map_err(refused)?;
        let listener = register(listener, &runtime).map_err(refused)?;
        let (end, is_ending) = watch::channel(false);
        let accepting = runtime.spawn(accept(listener, options, Ending(is_ending), serve));
        Ok(TaskServer { address, end, running: Some((runtime, accepting)) })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, and waits for those that have begun.
    pub fn end(&mut self) {
        let Some((runtime, accepting)) = self.running.take() else { return };
        // The task has ended already if nobody receives this.
        let _ = self.end.send(true);
        // A panic there has been printed.
        let _ = runtime.block_on(accepting);
        // A thread that hangs on a target that hangs must not keep the server from ending.
        runtime.shutdown_timeout(LAST_WAIT_TIME);
    }
}

impl Drop for TaskServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lets a runtime wait for a socket.
fn register(listener: StdListener, runtime: &Runtime) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    // The socket is registered with the present runtime.
    let _entered = runtime.enter();
    TcpListener::from_std(listener)
}

/// Accepts connections until the server ends, then waits for them.
async fn accept<T: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    options: TaskOptions,
    mut ending: Ending,
    serve: impl Fn(TcpStream, Ending) -> T + Send + Sync + 'static,
) {
    let permits = Arc::new(Semaphore::new(options.max_connections as usize));
    let for_connections = ending.clone();
    let begin = |stream: TcpStream, permit: OwnedSemaphorePermit| {
        // Replies are written whole, so delaying them (Nagle's algorithm) gains nothing. An error is
        // ignored: the connection also works with the delay.
        let _ = stream.set_nodelay(true);
        let served = serve(stream, for_connections.clone());
        drop(tokio::spawn(async move {
            served.await;
            drop(permit);
        }));
    };
    // No error: the semaphore is never closed.
    let admit = || async { permits.clone().acquire_owned().await.map_err(io::Error::other) };
    let next = || async {
        let permit = admit().await?;
        Ok::<_, io::Error>((listener.accept().await?.0, permit))
    };
    loop {
        tokio::select! {
            () = ending.wait() => break,
            accepted = next() => match accepted {
                Ok((stream, permit)) => begin(stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    // Dropping the listener would reset the connections that the system has accepted, so they are served. Their number is limited,
    // because clients that go on connecting must not keep the server from ending.
    let last = async {
        let listener = listener.into_std()?;
        for _ in 0..ACCEPT_BACKLOG {
            let permit = admit().await?;
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(true)?;
            begin(TcpStream::from_std(stream)?, permit);
        }
        Ok::<_, io::Error>(())
    };
    let drain = async {
        // It fails when no connection is left.
        let _ = last.await;
        permits.acquire_many(options.max_connections).await
    };
    // What takes longer is cut off.
    let _ = timeout(options.drain_time, drain).await;
}
