//! Port calls and their answers as data.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{
    Ahead, AssignableRequest, Beat, Counts, Cursor, Directive, Document, DocumentKey, DocumentWrite, Expect,
    GroupSummary, JournalPage, Page, PurgeRule, Purged, QueueInfo, QueueSettings, ReadFrom, RunnerKey,
    RunnerRecord, Scope, Seq, Store, StreamKey, TaskQuery, TrimBefore,
};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask};
use weaver_core::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Wake,
};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

/// Lists each call once: its variant, its port method, its owned arguments, its answer, and how it is made.
macro_rules! calls {
    ($(
        $variant:ident $method:ident { $($field:ident: $type:ty),* } -> $answer:ty
            = |$store:ident| $send:expr;
    )*) => {
        /// A call of a port, with its arguments.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "the ports document their methods and arguments")]
        pub enum Call {
            $($variant { $($field: $type),* }),*
        }

        /// The answer of a call.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "the ports document their answers")]
        pub enum Answer {
            $($variant($answer)),*
        }

        impl Call {
            /// Name of the port's method.
            pub fn method(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($method)),*
                }
            }

            /// Executes the call on a store.
            pub async fn send(self, store: &dyn Store) -> Result<Answer> {
                match self {
                    $(Self::$variant { $($field),* } => {
                        let $store = store;
                        Ok(Answer::$variant($send.await?))
                    })*
                }
            }
        }
    };
}

calls! {
    EnqueueBatch enqueue_batch { tasks: Vec<NewTask> } -> Vec<Result<Enqueued>>
        = |store| store.enqueue_batch(tasks);
    EnqueueAudited enqueue_audited { tasks: Vec<NewTask>, audit: EnqueueAudit } -> Vec<Result<Enqueued>>
        = |store| store.enqueue_audited(tasks, audit);
    Lease lease { request: LeaseRequest } -> Vec<Leased> = |store| store.lease(request);
    Commit commit { transitions: Vec<Transition>, leader: Option<LeaderEpoch> } -> Vec<Committed>
        = |store| store.commit(transitions, leader);
    CommitAndLease commit_and_lease { transitions: Vec<Transition>, request: LeaseRequest }
        -> CommittedAndLeased
        = |store| store.commit_and_lease(transitions, request);
    Renew renew { renewals: Vec<Renewal> } -> Vec<Renewed> = |store| store.renew(renewals);
    ConfirmStopped confirm_stopped { leases: Vec<Lease> } -> () = |store| store.confirm_stopped(leases);
    Overdue overdue { limit: u32 } -> Vec<Overdue> = |store| store.overdue(limit);
    Changes changes { after: Option<ChangeCursor>, limit: u32 } -> Changes
        = |store| store.changes(after, limit);
    Wait wait { interest: Interest, timeout: Duration } -> Wake = |store| store.wait(interest, timeout);

    Resolve resolve { namespace: Namespace, ids: Vec<String> } -> Vec<Option<TaskKey>>
        = |store| store.resolve(&namespace, &ids);
    GetTasks get_tasks { keys: Vec<TaskKey> } -> Vec<Option<TaskRecord>> = |store| store.get_tasks(&keys);
    ListGroups list_groups { namespace: Namespace, cursor: Option<Cursor>, limit: u32 } -> Page<GroupSummary>
        = |store| store.list_groups(&namespace, cursor, limit);
    ListTasks list_tasks { query: TaskQuery } -> Page<TaskRecord> = |store| store.list_tasks(query);
    Counts counts { scope: Scope } -> Counts = |store| store.counts(scope);
    Assignable assignable { requests: Vec<AssignableRequest> } -> Vec<Vec<TaskRecord>>
        = |store| store.assignable(requests);
    Assignments assignments { limit: u32 } -> Vec<TaskRecord> = |store| store.assignments(limit);

    AheadOf ahead_of { key: TaskKey, cap: u32 } -> Option<Ahead> = |store| store.ahead_of(&key, cap);

    ListQueues list_queues { namespace: Namespace } -> Vec<QueueInfo> = |store| store.list_queues(&namespace);
    PutQueue put_queue { namespace: Namespace, queue: QueueName, settings: QueueSettings, expect: Expect }
        -> Version
        = |store| store.put_queue(&namespace, &queue, settings, expect);
    PurgeTasks purge_tasks { rule: PurgeRule, limit: u32 } -> Purged = |store| store.purge_tasks(rule, limit);
    ListNamespaces list_namespaces { cursor: Option<Cursor>, limit: u32 } -> Page<Namespace>
        = |store| store.list_namespaces(cursor, limit);

    Beat beat { beats: Vec<Beat> } -> Vec<Directive> = |store| store.beat(beats);
    Direct direct { key: RunnerKey, directive: Directive } -> () = |store| store.direct(&key, directive);
    ListRunners list_runners { namespace: Namespace, cursor: Option<Cursor>, limit: u32 }
        -> Page<RunnerRecord>
        = |store| store.list_runners(&namespace, cursor, limit);
    StopRunner stop_runner { key: RunnerKey } -> () = |store| store.stop_runner(&key);

    GetDocument get_document { key: DocumentKey } -> Option<Document> = |store| store.get_document(&key);
    PutDocument put_document { key: DocumentKey, body: Bytes, expect: Expect, due: Option<Timestamp> }
        -> Version
        = |store| store.put_document(&key, body, expect, due);
    DeleteDocument delete_document { key: DocumentKey, expect: Expect } -> ()
        = |store| store.delete_document(&key, expect);
    WriteDocuments write_documents { writes: Vec<DocumentWrite> } -> Vec<Result<Option<Version>>>
        = |store| store.write_documents(writes);
    ListDocuments list_documents {
        namespace: Namespace, kind: String, prefix: String, cursor: Option<Cursor>, limit: u32
    } -> Page<Document> = |store| store.list_documents(&namespace, &kind, &prefix, cursor, limit);
    DueDocuments due_documents { kind: String, before: Timestamp, limit: u32 } -> Vec<Document>
        = |store| store.due_documents(&kind, before, limit);

    AppendEntries append_entries { stream: StreamKey, bodies: Vec<Bytes> } -> Seq
        = |store| store.append_entries(&stream, &bodies);
    ReadEntries read_entries { stream: StreamKey, from: ReadFrom, limit: u32 } -> JournalPage
        = |store| store.read_entries(&stream, from, limit);
    TrimEntries trim_entries { stream: StreamKey, before: TrimBefore } -> ()
        = |store| store.trim_entries(&stream, before);

    ListQuarantined list_quarantined { namespace: Option<Namespace>, cursor: Option<Cursor>, limit: u32 }
        -> Page<Quarantined> = |store| store.list_quarantined(namespace.as_ref(), cursor, limit);
    FindQuarantined find_quarantined { keys: Vec<TaskKey> } -> Vec<Option<Quarantined>>
        = |store| store.find_quarantined(&keys);
    RawTask raw_task { key: TaskKey } -> Option<RawTask> = |store| store.raw_task(&key);
    DiscardTask discard_task { key: TaskKey, expected: RawTask } -> Discarded
        = |store| store.discard_task(&key, &expected);
}
