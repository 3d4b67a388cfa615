//! Tasks with one serial key run one at a time, in order; tasks with different keys run in parallel.

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weaver::prelude::*;

/// The customers being served, and the log of what was done.
#[derive(Default)]
struct Books(Mutex<(HashSet<String>, Vec<String>)>);

async fn book(
    (customer, number): (String, u32),
    books: Shared<Arc<Books>>,
    _ctx: Ctx,
) -> Result<(), TaskError> {
    if !books.0.lock().unwrap_or_else(PoisonError::into_inner).0.insert(customer.clone()) {
        return Err(TaskError::fatal("two at once for one customer"));
    }
    #[expect(clippy::disallowed_methods, reason = "simulates work")]
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut done = books.0.lock().unwrap_or_else(PoisonError::into_inner);
    done.1.push(format!("{customer} {number}"));
    done.0.remove(&customer);
    Ok(())
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program may spawn its own worker")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let client = Client::new(store.clone(), clock.clone());

    let mut tasks = Vec::new();
    for number in 1..=3 {
        for customer in ["ada", "grace"] {
            let task = NewTask::new("book").json(&(customer, number))?;
            tasks.push(client.enqueue(task.serial_key(format!("customer {customer}"))).await?);
        }
    }
    println!("{}\n", client.store().explain(tasks[2].key()).await?);

    // Sixteen handlers could run at once; the keys allow two.
    let books = Arc::new(Books::default());
    let registry = Registry::new().share(books.clone()).handle_with("book", book)?;
    let worker = Worker::builder(Arc::new(LocalSource::new(store)), clock).registry(registry).build()?;
    let shutdown = Shutdown::new();
    let working = tokio::spawn(worker.run(shutdown.clone()));
    for task in &tasks {
        task.result::<()>().await?;
    }
    shutdown.request();
    working.await?;

    let (_, done) = &*books.0.lock().unwrap_or_else(PoisonError::into_inner);
    for customer in ["ada", "grace"] {
        let own: Vec<_> = done.iter().filter(|entry| entry.starts_with(customer)).cloned().collect();
        println!("in order, never two at once: {}", own.join(", "));
    }
    Ok(())
}
