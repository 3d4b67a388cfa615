//! Schedules, events and the settings of an installation.

use reqwest::Method;
use weaver_api as wire;

use crate::client::{Client, path, within};
use crate::error::ClientError;
use crate::http::CALL_TIMEOUT;

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// One page of the schedules, by name.
    pub async fn schedules(&self, query: &wire::SchedulesQuery) -> Result<wire::Page<wire::Schedule>> {
        self.get(&["schedules"], query).await
    }

    /// A schedule by its name.
    pub async fn schedule(&self, namespace: &str, name: &str) -> Result<wire::Schedule> {
        self.get(&["schedules", name], &within(namespace)).await
    }

    /// Creates a schedule, or replaces it.
    pub async fn put_schedule(
        &self,
        namespace: &str,
        name: &str,
        put: &wire::PutSchedule,
    ) -> Result<wire::Schedule> {
        let path = path(&["schedules", name]);
        self.http.send(Method::PUT, &path, &within(namespace), put, CALL_TIMEOUT).await
    }

    /// Removes a schedule; its tasks stay.
    pub async fn remove_schedule(&self, name: &str, query: &wire::ExpectQuery) -> Result<()> {
        self.http.delete(&path(&["schedules", name]), query).await
    }

    /// Enables or disables a schedule.
    pub async fn enable_schedule(
        &self,
        namespace: &str,
        name: &str,
        enabled: bool,
    ) -> Result<wire::Schedule> {
        self.act(&["schedules", name, if enabled { "enable" } else { "disable" }], namespace).await
    }

    /// Runs a schedule now: enqueues its task.
    pub async fn run_schedule_now(&self, namespace: &str, name: &str) -> Result<wire::Enqueued> {
        self.act(&["schedules", name, "run-now"], namespace).await
    }

    /// The upcoming runs of a schedule, with what a change of the clocks does to them.
    pub async fn upcoming_runs(&self, name: &str, query: &wire::UpcomingQuery) -> Result<wire::UpcomingRuns> {
        self.get(&["schedules", name, "upcoming"], query).await
    }

    /// Emits an event, or finds it by its dedupe key.
    pub async fn emit(&self, event: &wire::NewEvent) -> Result<wire::Emitted> {
        self.post(&["events"], event).await
    }

    /// A stored event by its id.
    pub async fn event(&self, namespace: &str, id: &str) -> Result<wire::StoredEvent> {
        self.get(&["events", id], &within(namespace)).await
    }

    /// One page of the stored events.
    pub async fn event_log(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::StoredEvent>> {
        self.get(&["event-log"], query).await
    }

    /// Runs of schedules that were not simply enqueued, and why.
    pub async fn notices(&self, query: &wire::NoticesQuery) -> Result<wire::Notices> {
        self.get(&["notices"], query).await
    }

    /// Every setting of the installation.
    pub async fn settings(&self) -> Result<wire::Settings> {
        self.get(&["settings"], &()).await
    }

    /// Changes a setting on every node.
    pub async fn put_setting(&self, key: &str, put: &wire::PutSetting) -> Result<wire::Setting> {
        self.http.send(Method::PUT, &path(&["settings", key]), &(), put, CALL_TIMEOUT).await
    }

    /// Resets a setting to its default.
    pub async fn reset_setting(&self, key: &str) -> Result<wire::Setting> {
        self.http.delete(&path(&["settings", key]), &()).await
    }
}
