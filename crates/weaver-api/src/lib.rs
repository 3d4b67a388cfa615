//! The JSON types of the HTTP API, one file per resource, and their conversions from and to the domain.
//!
//! Ids are strings, durations end in `_ms`, instants are RFC 3339. `namespace` is `default` wherever
//! it is absent. Errors are [`Problem`]s.
//!
//! A request with an unknown field is refused, and the field is named. Responses may gain fields in later
//! versions: clients ignore those they do not know.
//!
//! | method and path | request | response |
//! |---|---|---|
//! | `GET /healthz` `/readyz` | | 200 or 503, [`Health`] |
//! | `GET /metrics` | | Prometheus text |
//! | `GET /api/openapi.json` | | OpenAPI 3.1 |
//! | `GET /api/v1/namespaces` | [`PageQuery`] | [`Page`]`<`[`NamespaceItem`]`>` |
//! | `POST /api/v1/tasks` | [`EnqueueRequest`] | 201 [`EnqueueResponse`] |
//! | `GET /api/v1/tasks` | [`ListTasksQuery`] | [`Page`]`<`[`Task`]`>` |
//! | `GET /api/v1/tasks/{id}` | [`NamespaceQuery`] | [`Task`] |
//! | `DELETE /api/v1/tasks/{id}` | [`NamespaceQuery`], `If-Match` | 204: removed in any state |
//! | `GET /api/v1/tasks/{id}/raw` | [`NamespaceQuery`] | [`RawTask`] with its `ETag` |
//! | `POST /api/v1/tasks/{id}/cancel` | [`NamespaceQuery`] | [`Task`] |
//! | `POST /api/v1/tasks/{id}/run-now` | [`NamespaceQuery`] | [`Task`] |
//! | `POST /api/v1/tasks/{id}/retry` | [`NamespaceQuery`] | 201 [`Enqueued`]: a new task |
//! | `GET /api/v1/tasks/{id}/explain` | [`NamespaceQuery`] | [`Explanation`] |
//! | `GET /api/v1/tasks/{id}/history` | [`NamespaceQuery`] | [`History`] |
//! | `GET /api/v1/tasks/{id}/logs` | [`LogsQuery`] | [`LogPage`], after at most `wait_ms` |
//! | `GET /api/v1/tasks/{id}/wait` | [`WaitQuery`] | [`Waited`], once it ended or after `timeout_ms` |
//! | `GET /api/v1/quarantine` | [`NamespacePageQuery`] | [`Page`]`<`[`QuarantinedRecord`]`>` |
//! | `POST /api/v1/bulk/cancel` `/retry` | [`ListTasksQuery`], [`BulkRequest`] | [`BulkResult`] |
//! | `GET /api/v1/groups` | [`NamespacePageQuery`] | [`Page`]`<`[`Group`]`>` |
//! | `GET /api/v1/queues` | [`NamespaceQuery`] | [`Queues`] |
//! | `PUT /api/v1/queues/{queue}` | [`NamespaceQuery`], [`PutQueue`] | [`QueueVersion`] |
//! | `POST /api/v1/queues/{queue}/pause` `/resume` | [`NamespaceQuery`] | [`QueueVersion`] |
//! | `GET /api/v1/counts` | [`CountsQuery`] | [`Counts`] |
//! | `GET /api/v1/workers` | [`NamespacePageQuery`] | [`Page`]`<`[`Worker`]`>` |
//! | `POST /api/v1/workers/{id}/directive` | [`NamespaceQuery`], [`DirectiveRequest`] | 204 |
//! | `GET /api/v1/tokens` | [`PageQuery`] | [`Page`]`<`[`Token`]`>` |
//! | `POST /api/v1/tokens` | [`NewToken`] | 201 [`CreatedToken`] |
//! | `DELETE /api/v1/tokens/{id}` | | 204 |
//! | `GET /api/v1/schedules` | [`SchedulesQuery`] | [`Page`]`<`[`Schedule`]`>` |
//! | `GET /api/v1/schedules/{name}` | [`NamespaceQuery`] | [`Schedule`] |
//! | `PUT /api/v1/schedules/{name}` | [`NamespaceQuery`], [`PutSchedule`] | 201 or 200, [`Schedule`] |
//! | `DELETE /api/v1/schedules/{name}` | [`ExpectQuery`] | 204 |
//! | `POST /api/v1/schedules/{name}/enable` `/disable` | [`ExpectQuery`] | [`Schedule`] |
//! | `POST /api/v1/schedules/{name}/run-now` | [`NamespaceQuery`] | 201 [`Enqueued`] |
//! | `GET /api/v1/schedules/{name}/upcoming` | [`UpcomingQuery`] | [`UpcomingRuns`] |
//! | `POST /api/v1/schedule-preview` | [`PreviewRequest`] | [`UpcomingRuns`], without storing it |
//! | `GET /api/v1/notices` | [`NoticesQuery`] | [`Notices`] |
//! | `POST /api/v1/events` | [`NewEvent`] | 201 [`Emitted`] |
//! | `GET /api/v1/events/{id}` | [`NamespaceQuery`] | [`StoredEvent`] |
//! | `GET /api/v1/event-log` | [`NamespacePageQuery`] | [`Page`]`<`[`StoredEvent`]`>` |
//! | `GET /api/v1/settings` | | [`Settings`] |
//! | `PUT /api/v1/settings/{key}` | [`PutSetting`] | [`Setting`] |
//! | `DELETE /api/v1/settings/{key}` | [`ExpectedVersionQuery`] | [`Setting`] |
//! | `GET /api/v1/merge/queues` | | [`MergeQueues`] |
//! | `POST /api/v1/merge/queues` | [`NewMergeQueue`] | 201 [`MergeQueue`] |
//! | `GET /api/v1/merge/queues/{queue}` | | [`MergeQueue`] |
//! | `DELETE /api/v1/merge/queues/{queue}` | [`RemoveMergeQuery`] | [`MergeQueue`] |
//! | `GET /api/v1/merge/queues/{queue}/events` | `Last-Event-ID` | `text/event-stream` of [`MergeEvent`]s |
//! | `PUT /api/v1/merge/queues/{queue}/priority` | [`PutMergePriority`] | [`MergeQueue`] |
//! | `POST /api/v1/merge/queues/{queue}/pause` | [`PauseMerge`] | [`MergeQueue`] |
//! | `POST /api/v1/merge/queues/{queue}/resume` | | [`MergeQueue`] |
//! | `POST /api/v1/merge/queues/{queue}/accept` | [`AcceptMerge`] | [`MergeQueue`] |
//! | `PUT /api/v1/merge/queues/{queue}/on_foreign` | [`PutMergeOnForeign`] | [`MergeQueue`] |
//! | `GET /api/v1/merge/queues/{queue}/chain` | [`MergeChainQuery`] | [`MergeChainExport`] |
//! | `GET /api/v1/merge/queues/{queue}/verify` | [`MergeVerifyQuery`] | [`MergeChainVerified`] |
//! | `POST /api/v1/merge/queues/{queue}/entries` | [`NewMergeEntry`] | 201 [`MergeEntry`] |
//! | `POST /api/v1/merge/queues/{queue}/entries/{entry}/cancel` | | [`MergeEntry`] |
//! | `PUT /api/v1/merge/queues/{queue}/entries/{entry}/priority` | [`PutMergePriority`] | [`MergeEntry`] |
//! | `GET /api/v1/merge/queues/{queue}/entries` | [`MergeEntriesQuery`] | [`MergeEntries`] |
//! | `GET /api/v1/merge/queues/{queue}/entries/{entry}` | | [`MergeEntry`] |
//! | `GET /api/v1/merge/queues/{queue}/entries/{entry}/verify` | | [`MergeVerified`] |
//! | `GET /api/v1/merge/queues/{queue}/certificates` | [`MergeEntriesQuery`] | [`MergeCertificates`] |
//! | `POST /api/v1/login-links` | | 201 [`LoginLink`] |
//! | `GET /api/v1/audit` | [`AuditQuery`] | [`AuditPage`] |
//! | `GET /api/v1/events` | [`EventsQuery`], `Last-Event-ID` | `text/event-stream` of [`Change`]s |
//! | `POST /api/v1/work/lease` | [`LeaseRequest`] | [`LeaseResponse`], after at most `wait_ms` |
//! | `POST /api/v1/work/cancelled` | [`WaitForCancelled`] | [`CancelledWaited`], after at most `wait_ms` |
//! | `POST /api/v1/work/start-assigned` | [`StartAssignedRequest`] | [`LeaseResponse`] |
//! | `POST /api/v1/work/wait-assigned` | [`WaitForAssigned`] | [`WorkWaited`], after at most `wait_ms` |
//! | `POST /api/v1/work/wait` | [`WaitForWork`] | [`WorkWaited`], after at most `wait_ms` |
//! | `POST /api/v1/work/renew` | [`RenewRequest`] | [`RenewResponse`] |
//! | `POST /api/v1/work/finish` | [`FinishRequest`] | [`FinishResponse`] |
//! | `POST /api/v1/work/confirm-stopped` | [`ConfirmStoppedRequest`] | 204 |
//! | `POST /api/v1/work/heartbeat` | [`HeartbeatRequest`] | [`HeartbeatResponse`] |
//! | `POST /api/v1/work/deregister` | [`DeregisterRequest`] | 204 |
//! | `POST /api/v1/work/append` | [`AppendRequest`] | 204 |
//!
//! A `POST` or `PUT` with a body is `application/json`; without a body it needs no content type.

mod bulk;
mod cause;
mod emitted;
mod enqueue;
mod events;
mod explanation;
mod finish;
mod json;
mod lease;
mod lists;
mod logs;
mod merge;
mod merge_chain;
pub mod merge_convert;
mod merge_event;
mod merge_reason;
mod merge_removal;
mod names;
mod problem;
mod quarantine;
mod queues;
mod retry;
mod schedule_convert;
mod schedules;
mod strict;
mod task;
mod task_record;
mod tokens;
mod words;
mod work;
mod workers;

pub use bulk::{BulkRequest, BulkResult};
pub use emitted::{Emitted, ExpectedVersionQuery, NewEvent, PutSetting, Setting, Settings, StoredEvent};
pub use enqueue::{EnqueueMember, EnqueueRequest, EnqueueResponse, Enqueued, NewTask, Trace};
pub use events::{
    AuditEntry, AuditPage, AuditQuery, Change, EVENT_CHANGE, EVENT_END, EVENT_RESYNC, EventsQuery,
};
pub use explanation::{Explanation, Reason};
pub use finish::{Finish, FinishRequest, FinishResponse, FinishResult, FinishStatus, OutcomeKind};
pub use json::Json;
pub use lease::{
    ConfirmStoppedRequest, Lease, LeaseRequest, LeaseResponse, LeasedTask, RenewRequest, RenewResponse,
    Renewal, StartAssignedRequest,
};
pub use lists::{
    ClockJumped, Health, ListTasksQuery, MaintenanceFailing, NamespaceItem, NamespacePageQuery,
    NamespaceQuery, Page, PageQuery, WaitQuery, Waited,
};
pub use logs::{AppendRequest, Body, LogLine, LogPage, LogsQuery, StreamAppend};
pub use merge::{
    MergeCandidate, MergeCertificate, MergeCertificates, MergeCertifiedCheck, MergeCheck, MergeEntries,
    MergeEntriesQuery, MergeEntry, MergeFault, MergePause, MergeQueue, MergeQueues, MergeRun, MergeStats,
    MergeStatus, MergeVerified, NewMergeEntry, NewMergeQueue, PauseMerge, PutMergePriority,
};
pub use merge_chain::{
    AcceptMerge, MergeChain, MergeChainExport, MergeChainQuery, MergeChainVerified, MergeLink,
    MergeLinkVerified, MergeVerifyQuery, PutMergeOnForeign,
};
pub use merge_event::MergeEvent;
pub use merge_reason::{MergeLanded, MergeReason};
pub use merge_removal::{MergeRemoval, RemoveMergeQuery};
pub use names::namespace_or_default;
pub use problem::Problem;
pub use quarantine::{Holds, QuarantinedRecord, RawTask, UnreadableCause};
pub use queues::{
    Counts, CountsQuery, Group, PutQueue, Queue, QueueVersion, Queues, QueuesQuery, StateCounts,
};
pub use retry::RetryPolicy;
pub use schedules::{
    ExpectQuery, NoticeEntry, Notices, NoticesQuery, PreviewRequest, PutSchedule, Schedule, ScheduleNotice,
    ScheduleSpec, SchedulesQuery, TaskTemplate, Trigger, UpcomingQuery, UpcomingRun, UpcomingRuns,
};
pub use strict::{JSON_DEPTH_MAX, NotStrict, StrictProblem, check_strict};
pub use task::{Assignment, Attempt, HeldLease, History, Progress, Task};
pub use tokens::{CreatedToken, LoginLink, NewToken, Role, Token, UnknownRole};
pub use words::{from_word, word_of};
pub use work::{CancelledWaited, WaitForAssigned, WaitForCancelled, WaitForWork, WorkWaited};
pub use workers::{
    DeregisterRequest, DirectiveRequest, Heartbeat, HeartbeatRequest, HeartbeatResponse, Worker, WorkerRef,
};

// Enums that the domain serializes itself.
pub use weaver_core::lease::{ContinuationChange, Renewed};
pub use weaver_core::ports::{Directive, Order, RunnerStatus as WorkerStatus};
pub use weaver_core::quarantine::RecordKind;
pub use weaver_core::task::Dispatch;
pub use weaver_core::task::{AttemptOutcome, Cause, TaskState};
pub use weaver_merge::domain::OnForeign;
pub use weaver_scheduler::calendar::{Fold, Gap};
pub use weaver_scheduler::definition::ConcurrencyPolicy;
pub use weaver_scheduler::misfire::Misfire;
