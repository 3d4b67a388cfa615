//! Every page and action, as a person comes upon them.

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Bed, Crew, Site};

#[tokio::test(flavor = "multi_thread")]
async fn somebody_finds_a_failed_task_sees_why_retries_it_pauses_a_queue_submits_a_prompt_and_adds_a_schedule()
 {
    journey(&Bed::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_finds_a_failed_task_sees_why_retries_it_pauses_a_queue_and_submits_a_prompt_on_postgresql()
{
    journey(&Bed::postgres().await).await;
}

async fn journey(bed: &Bed) {
    let (site, driver) = (Site::start(bed).await, Driver::start());
    let (_crew, _lines) = Crew::start(bed);
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

/// From the number of dead tasks to the one that is dead, why, and again.
async fn failed_task(browser: &Browser, id: &str) {
    browser.sees("[data-key=dead] dd", "1").await;
    browser.click("[data-key=dead] dd a").await;
    browser.sees("#rows", "no such recipient").await;
    browser.click(&format!("[data-key=\"{id}\"] a")).await;
    browser.sees(".why", "no such recipient").await;
    browser.sees(".timeline", "Attempt 1 failed").await;
    browser.sees("#log", "tried it").await;
    browser.press("Retry as a new task").await;
    browser.sees(".timeline", &format!("as a repetition of task {id}")).await;
    browser.sees("h1", "dead").await;
}

async fn cancel_and_bulk(browser: &Browser, site: &Site) {
    browser.go(&site.url("/tasks?label=team:blue")).await;
    browser.sees("#rows", "running").await;
    browser.click("#rows a").await;
    browser.sees("main", "two of five").await;
    browser.press("Cancel").await;
    browser.sees("h1", "cancelled").await;
    browser.sees(".why", "cancelled by a user").await;
    // Two chosen by hand, then everything that matches a filter.
    for _ in 0..5 {
        site.enqueue(NewTask::new("nobody").queue("later")).await;
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
    browser.sees(".done", "5 tasks put in again").await;
    // A task that is due later is run now.
    let later = site.enqueue(NewTask::new("ok").delay(std::time::Duration::from_secs(3600))).await;
    browser.go(&site.url(&format!("/tasks/{}", later.id))).await;
    browser.sees(".why", "Due at").await;
    browser.press("Run now").await;
    browser.sees("h1", "succeeded").await;
}

async fn queues(browser: &Browser, site: &Site) {
    browser.press("Queues").await;
    browser.sees("h1", "Queues").await;
    browser.type_into("[data-key=later] input[name=max_running]", "7").await;
    browser.click("[data-key=later] button[value=limit]").await;
    browser.until("document.querySelector('[data-key=later] input[name=max_running]').getAttribute('value') === '7'").await;
    browser.click("[data-key=later] td.tap button").await;
    browser.sees("[data-key=later]", "paused").await;
    let queues = site.store.list_queues(&Namespace::default()).await.expect("as the test expects");
    let later = queues.iter().find(|queue| queue.name.as_str() == "later").expect("as the test expects");
    assert_eq!((later.settings.paused, later.settings.max_running), (true, Some(7)));
    // The reason why its tasks wait says so, and leads here.
    browser.go(&site.url("/tasks?queue=later&state=queued")).await;
    browser.click("#rows a").await;
    browser.sees(".why", "Queue later is paused").await;
    browser.press("Queue later").await;
    browser.click("[data-key=later] td.tap button").await;
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

/// Whoever knows neither cron nor the docs: the form says what to write, and when that would be.
async fn schedule(browser: &Browser) {
    browser.press("Schedules").await;
    browser.press("New schedule").await;
    browser.type_into("#name", "morning-mail").await;
    browser.type_into("#schedule", "daily at 07:00").await;
    browser.type_into("#tz", "Europe/Berlin").await;
    browser.sees("#check", "Every day at 07:00. It would fire:").await;
    browser.type_into("#task_type", "ok").await;
    browser.press("Add").await;
    browser.sees("h1", "Schedule morning-mail").await;
    browser.press("Overview").await;
    browser.sees("[data-key=morning-mail]", "in ").await;
    browser.press("morning-mail").await;
    browser.until("document.querySelectorAll('.fires li').length === 5").await;
}

async fn rest(browser: &Browser, site: &Site) {
    browser.press("Runners").await;
    browser.sees("td", "alive").await;
    browser.press("Drain").await;
    browser.sees("td", "draining").await;
    browser.press("Take work again").await;
    browser.press("Tokens").await;
    browser.type_into("#name", "ci").await;
    browser.press("Make").await;
    browser.sees(".done", "wvr_").await;
    browser.until("[...document.querySelectorAll('td')].some((e) => e.innerText === 'ci')").await;
    browser.script("[...document.querySelectorAll('tr')].find((r) => r.cells[0].innerText === 'ci').querySelector('summary').click()").await;
    browser.press("Revoke ci").await;
    browser.until("![...document.querySelectorAll('td')].some((e) => e.innerText === 'ci')").await;
    browser.press("Audit").await;
    for deed in [
        "task.retry",
        "task.cancel_many",
        "queue.pause",
        "queue.put",
        "task.enqueue",
        "runner.direct",
        "schedule.add",
    ] {
        browser.sees("td", deed).await;
    }
    browser.press("The server: tokens, settings and logins").await;
    browser.sees("td", "token.revoke").await;
    browser.go(&site.url("/tasks/no-such-task")).await;
    browser.sees("main", "What to do: check the id and the namespace").await;
}
