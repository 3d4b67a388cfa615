//! Every page and action, in one session of a user.

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Harness, Site, TestWorker};

#[tokio::test(flavor = "multi_thread")]
async fn a_user_retries_a_dead_task_pauses_a_queue_submits_a_prompt_and_adds_a_schedule() {
    journey(&Harness::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_retries_a_dead_task_pauses_a_queue_and_submits_a_prompt_on_postgresql() {
    journey(&Harness::postgres().await).await;
}

async fn journey(harness: &Harness) {
    let (site, driver) = (Site::start(harness).await, Driver::start());
    let (_worker, _lines) = TestWorker::start(harness);
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.sees(".empty", "weaver enqueue").await;
    let broken = site.enqueue(NewTask::new("broken")).await.id.to_string();
    site.enqueue(NewTask::new("slow").label("team", "blue")).await;
    failed_task(&browser, &broken).await;
    cancel_and_bulk(&browser, &site).await;
    queues(&browser, &site).await;
    prompts(&browser).await;
    schedule(&browser).await;
    rest(&browser, &site).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

/// From the count of dead tasks to the task, its explanation, and a retry.
async fn failed_task(browser: &Browser, id: &str) {
    browser.sees("[data-key=dead] dd", "1").await;
    browser.click("[data-key=dead] dd a").await;
    browser.sees("#rows", "no such recipient").await;
    browser.click(&format!("[data-key=\"{id}\"] a")).await;
    browser.sees(".reasons", "no such recipient").await;
    browser.sees(".timeline", "Attempt 1 failed").await;
    browser.sees("#log", "tried it").await;
    browser.press("Retry as a new task").await;
    browser.sees(".timeline", &format!("as a retry of task {id}")).await;
    browser.sees("h1", "dead").await;
}

async fn cancel_and_bulk(browser: &Browser, site: &Site) {
    browser.go(&site.url("/tasks?label=team=blue")).await;
    browser.sees("#rows", "running").await;
    browser.click("#rows a").await;
    browser.sees("main", "two of five").await;
    browser.press("Cancel").await;
    browser.sees("h1", "cancelled").await;
    browser.sees(".reasons", "cancelled by a user").await;
    // Two selected tasks, then all that match a filter.
    for _ in 0..5 {
        site.enqueue(NewTask::new("unhandled").queue("later")).await;
    }
    browser.go(&site.url("/tasks?queue=later")).await;
    browser.click("#rows tr:nth-child(1) input").await;
    browser.click("#rows tr:nth-child(2) input").await;
    browser.press("Cancel 2").await;
    browser.sees("h1", "Cancel 2 tasks?").await;
    browser.press("Cancel 2 tasks").await;
    browser.sees(".done", "2 tasks cancelled").await;
    browser.go(&site.url("/tasks?queue=later")).await;
    browser.press("Cancel all…").await;
    browser.sees("h1", "Cancel 3 tasks?").await;
    browser.press("Cancel 3 tasks").await;
    browser.sees(".done", "3 tasks cancelled").await;
    browser.go(&site.url("/tasks?queue=later&state=cancelled")).await;
    browser.press("Retry all…").await;
    browser.sees("h1", "Retry 5 tasks?").await;
    browser.press("Retry 5 tasks").await;
    browser.sees(".done", "5 tasks retried").await;
    // A task that is due later is run now.
    let later = site.enqueue(NewTask::new("ok").delay(std::time::Duration::from_secs(3600))).await;
    browser.go(&site.url(&format!("/tasks/{}", later.id))).await;
    browser.sees(".reasons", "Due at").await;
    browser.press("Run now").await;
    browser.sees("h1", "succeeded").await;
}

async fn queues(browser: &Browser, site: &Site) {
    browser.press("Queues").await;
    browser.sees("h1", "Queues").await;
    browser.type_into("[data-key=later] input[name=max_running]", "7").await;
    browser.click("[data-key=later] button[value=limit]").await;
    browser.until("document.querySelector('[data-key=later] input[name=max_running]').getAttribute('value') === '7'").await;
    browser.click("[data-key=later] td.actions button").await;
    browser.sees("[data-key=later]", "paused").await;
    let queues = site.store.list_queues(&Namespace::default()).await.expect("as the test expects");
    let later = queues.iter().find(|queue| queue.name.as_str() == "later").expect("as the test expects");
    assert_eq!((later.settings.paused, later.settings.max_running), (true, Some(7)));
    // The explanation of a waiting task names the queue and links here.
    browser.go(&site.url("/tasks?queue=later&state=queued")).await;
    browser.click("#rows a").await;
    browser.sees(".reasons", "Queue later is paused").await;
    browser.press("Queue later").await;
    browser.click("[data-key=later] td.actions button").await;
    browser.until("!document.querySelector('[data-key=later]').innerText.includes('paused')").await;
}

async fn prompts(browser: &Browser) {
    browser.press("Groups").await;
    browser.sees("h1", "Task groups").await;
    browser.type_into("#prompt", "Fix the test\nand say why").await;
    browser.type_into("#group", "repairs").await;
    browser.type_into("#session", "one").await;
    browser.press("Submit").await;
    browser.sees("h1", "Group repairs").await;
    browser.sees(".prompt pre", "Fix the test\nand say why").await;
    browser.until("document.querySelector('#session').value === 'one'").await;
    browser.press("All groups").await;
    browser.sees("[data-key=repairs]", "1 ").await;
}

/// The form previews the upcoming runs while it is filled in.
async fn schedule(browser: &Browser) {
    browser.press("Schedules").await;
    browser.press("New schedule").await;
    browser.type_into("#name", "morning-mail").await;
    browser.type_into("#schedule", "daily at 07:00").await;
    browser.type_into("#tz", "Europe/Berlin").await;
    browser.sees("#check", "Every day at 07:00. Upcoming runs:").await;
    browser.type_into("#task_type", "ok").await;
    browser.press("Create schedule").await;
    browser.sees("h1", "Schedule morning-mail").await;
    browser.press("Overview").await;
    browser.sees("[data-key=morning-mail]", "in ").await;
    browser.press("morning-mail").await;
    browser.until("document.querySelectorAll('.upcoming li').length === 5").await;
}

async fn rest(browser: &Browser, site: &Site) {
    browser.press("Workers").await;
    browser.sees("td", "running").await;
    browser.press("Drain").await;
    browser.sees("td", "draining").await;
    browser.press("Resume").await;
    browser.press("Tokens").await;
    browser.type_into("#name", "ci").await;
    browser.press("Create token").await;
    browser.sees(".done", "wvr_").await;
    browser.until("[...document.querySelectorAll('td')].some((e) => e.innerText === 'ci')").await;
    browser.script("[...document.querySelectorAll('tr')].find((r) => r.cells[0].innerText === 'ci').querySelector('summary').click()").await;
    browser.press("Revoke ci").await;
    browser.until("![...document.querySelectorAll('td')].some((e) => e.innerText === 'ci')").await;
    browser.press("Audit log").await;
    for action in [
        "task.retry",
        "task.cancel_many",
        "queue.pause",
        "queue.put",
        "task.enqueue",
        "worker.directive",
        "schedule.add",
    ] {
        browser.sees("td", action).await;
    }
    browser.press("Server: tokens, settings and logins").await;
    browser.sees("td", "token.revoke").await;
    browser.go(&site.url("/tasks/no-such-task")).await;
    browser.sees("main", "Hint: check the id and the namespace").await;
}
