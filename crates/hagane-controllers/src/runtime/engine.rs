//! Starts control loops on shared caches, and ends them.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::cache::{CacheBuilder, Caches};
use super::controller::{Controller, Mapping};
use super::enter::run_pass;
use super::queue::Queue;
use super::resource::{ObjectKey, Resource};
use super::schedule::Next;
use crate::Context;

/// A loop that is set up and waits for its caches.
type Loop = Box<dyn FnOnce(Caches, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// The control loops of one process.
pub struct Engine {
    context: Context,
    builder: CacheBuilder,
    loops: Vec<Loop>,
    late: Arc<std::sync::OnceLock<Caches>>,
}

impl Engine {
    /// An engine without loops.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context, builder: CacheBuilder::default(), loops: Vec::new(), late: Arc::default() }
    }

    /// Adds a control loop.
    pub fn add<C: Controller>(&mut self, controller: C) {
        let controller = Arc::new(controller);
        let queue = Queue::new(self.context.settings.periods);
        let mut needed = controller.resources();
        for resource in controller.resources() {
            let (waker, controller) = (queue.waker(), Arc::clone(&controller));
            self.builder.listen(
                resource,
                Box::new(move |change| {
                    if controller.own_change_matters(change) {
                        waker.wake(change.key.clone());
                    }
                }),
            );
        }
        for watch in controller.watches() {
            needed.push(watch.resource);
            self.listen(watch.resource, watch.concerns, &queue);
        }
        needed.sort();
        needed.dedup();
        let context = self.context.clone();
        self.loops.push(Box::new(move |caches, shutdown| {
            Box::pin(serve(controller, context, queue, caches, needed, shutdown))
        }));
    }

    /// Runs until `shutdown`, then lets passes in flight end within the grace period. Dropping the future ends
    /// everything at once, as a crash would.
    pub async fn run(self, shutdown: CancellationToken) {
        let (caches, watches) = self.builder.build();
        let _ = self.late.set(caches.clone());
        let mut background = JoinSet::new();
        for watch in watches {
            background.spawn(watch.run(self.context.client.clone()));
        }
        let mut loops = JoinSet::new();
        for start in self.loops {
            loops.spawn(start(caches.clone(), shutdown.clone()));
        }
        shutdown.cancelled().await;
        while loops.join_next().await.is_some() {}
        background.shutdown().await;
    }

    fn listen(&mut self, resource: Resource, concerns: Mapping, queue: &Arc<Queue>) {
        let (waker, late) = (queue.waker(), Arc::clone(&self.late));
        self.builder.listen(
            resource,
            Box::new(move |change| {
                let Some(caches) = late.get() else { return };
                for key in concerns(change, caches) {
                    waker.wake(key);
                }
            }),
        );
    }
}

async fn serve<C: Controller>(
    controller: Arc<C>,
    context: Context,
    queue: Arc<Queue>,
    caches: Caches,
    needed: Vec<Resource>,
    shutdown: CancellationToken,
) {
    let name = controller.name();
    tokio::select! {
        () = caches.ready(&needed) => {}
        () = shutdown.cancelled() => return,
    }
    info!(controller = name, "control loop started");
    let mut sources = JoinSet::new();
    for source in controller.sources(&context, &caches, &queue.waker()) {
        sources.spawn(source);
    }
    let mut passes = JoinSet::new();
    let workers = context.settings.workers.max(1);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = passes.join_next(), if !passes.is_empty() => {}
            key = queue.next(), if passes.len() < workers => {
                let running = Running { queue: Arc::clone(&queue), key, next: Next::Retry };
                passes.spawn(one_pass(Arc::clone(&controller), context.clone(), caches.clone(), running));
            }
        }
    }
    let drain = async { while passes.join_next().await.is_some() {} };
    if tokio::time::timeout(context.settings.grace, drain).await.is_err() {
        debug!(controller = name, "passes in flight were cut off");
        passes.shutdown().await;
    }
    sources.shutdown().await;
    debug!(controller = name, "control loop ended");
}

/// Gives the key back to the queue however the pass ends.
struct Running {
    queue: Arc<Queue>,
    key: ObjectKey,
    next: Next,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queue.done(&self.key, self.next);
    }
}

async fn one_pass<C: Controller>(controller: Arc<C>, context: Context, caches: Caches, mut running: Running) {
    let failures = running.queue.failures(&running.key);
    running.next = run_pass(controller.as_ref(), &context, &caches, &running.key, failures).await;
}
