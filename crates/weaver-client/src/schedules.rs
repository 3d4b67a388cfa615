//! Schedules, events and the settings of an installation.

use reqwest::Method;
use weaver_api as wire;

use crate::client::{Client, path, within};
use crate::error::ClientError;
use crate::http::CALL_TIMEOUT;

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// Schedules, by name.
    pub async fn schedules(&self, query: &wire::SchedulesQuery) -> Result<wire::Page<wire::Schedule>> {
        self.get(&["schedules"], query).await
    }

    /// One schedule.
    pub async fn schedule(&self, namespace: &str, name: &str) -> Result<wire::Schedule> {
        self.get(&["schedules", name], &within(namespace)).await
    }

    /// Adds a schedule, or changes it.
    pub async fn put_schedule(
        &self,
        namespace: &str,
        name: &str,
        put: &wire::PutSchedule,
    ) -> Result<wire::Schedule> {
        let path = path(&["schedules", name]);
        self.http.send(Method::PUT, &path, &within(namespace), put, CALL_TIMEOUT).await
    }

    /// Removes a schedule.
    pub async fn remove_schedule(&self, name: &str, query: &wire::ExpectQuery) -> Result<()> {
        self.http.delete(&path(&["schedules", name]), query).await
    }

    /// Lets a schedule fire, or not.
    pub async fn enable_schedule(
        &self,
        namespace: &str,
        name: &str,
        enabled: bool,
    ) -> Result<wire::Schedule> {
        self.act(&["schedules", name, if enabled { "enable" } else { "disable" }], namespace).await
    }

    /// Makes a schedule's task now.
    pub async fn run_schedule_now(&self, namespace: &str, name: &str) -> Result<wire::Enqueued> {
        self.act(&["schedules", name, "run-now"], namespace).await
    }

    /// The next fires of a schedule.
    pub async fn fires(&self, name: &str, query: &wire::FiresQuery) -> Result<wire::Fires> {
        self.get(&["schedules", name, "fires"], query).await
    }

    /// Says that something happened.
    pub async fn emit(&self, event: &wire::NewEvent) -> Result<wire::Emitted> {
        self.post(&["events"], event).await
    }

    /// An event that was stored.
    pub async fn event(&self, namespace: &str, id: &str) -> Result<wire::StoredEvent> {
        self.get(&["events", id], &within(namespace)).await
    }

    /// The events that were stored.
    pub async fn event_log(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::StoredEvent>> {
        self.get(&["event-log"], query).await
    }

    /// What schedules did that was not simply "run it".
    pub async fn notices(&self, query: &wire::NoticesQuery) -> Result<wire::Notices> {
        self.get(&["notices"], query).await
    }

    /// The settings of the whole installation.
    pub async fn settings(&self) -> Result<wire::Settings> {
        self.get(&["settings"], &()).await
    }

    /// Changes a setting.
    pub async fn put_setting(&self, key: &str, put: &wire::PutSetting) -> Result<wire::Setting> {
        self.http.send(Method::PUT, &path(&["settings", key]), &(), put, CALL_TIMEOUT).await
    }

    /// Puts a setting back to its default.
    pub async fn reset_setting(&self, key: &str) -> Result<wire::Setting> {
        self.http.delete(&path(&["settings", key]), &()).await
    }
}
