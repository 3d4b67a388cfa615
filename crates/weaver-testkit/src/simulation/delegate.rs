//! Ports that a decorator passes on unchanged.

/// Passes runners, documents and journal on to a field.
macro_rules! delegate_side_ports {
    ($type:ty, $field:ident) => {
        #[async_trait::async_trait]
        impl weaver_core::ports::Runners for $type {
            async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
                self.$field.beat(beats).await
            }
            async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
                self.$field.direct(key, directive).await
            }
            async fn list_runners(
                &self,
                namespace: &Namespace,
                cursor: Option<Cursor>,
                limit: u32,
            ) -> Result<Page<RunnerRecord>> {
                self.$field.list_runners(namespace, cursor, limit).await
            }
            async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
                self.$field.stop_runner(key).await
            }
        }

        #[async_trait::async_trait]
        impl weaver_core::ports::Documents for $type {
            async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
                self.$field.get_document(key).await
            }
            async fn put_document(
                &self,
                key: &DocumentKey,
                body: Bytes,
                expect: Expect,
                due: Option<Timestamp>,
            ) -> Result<Version> {
                self.$field.put_document(key, body, expect, due).await
            }
            async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
                self.$field.delete_document(key, expect).await
            }
            async fn write_documents(
                &self,
                writes: Vec<weaver_core::ports::DocumentWrite>,
            ) -> Result<Vec<Result<Option<Version>>>> {
                self.$field.write_documents(writes).await
            }
            async fn list_documents(
                &self,
                namespace: &Namespace,
                kind: &str,
                prefix: &str,
                cursor: Option<Cursor>,
                limit: u32,
            ) -> Result<Page<Document>> {
                self.$field.list_documents(namespace, kind, prefix, cursor, limit).await
            }
            async fn due_documents(
                &self,
                kind: &str,
                before: Timestamp,
                limit: u32,
            ) -> Result<Vec<Document>> {
                self.$field.due_documents(kind, before, limit).await
            }
        }

        #[async_trait::async_trait]
        impl weaver_core::ports::Journal for $type {
            async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
                self.$field.append_entries(stream, bodies).await
            }
            async fn read_entries(
                &self,
                stream: &StreamKey,
                from: ReadFrom,
                limit: u32,
            ) -> Result<JournalPage> {
                self.$field.read_entries(stream, from, limit).await
            }
            async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
                self.$field.trim_entries(stream, before).await
            }
        }

        #[async_trait::async_trait]
        impl weaver_core::ports::UnreadableRecords for $type {
            async fn list_quarantined(
                &self,
                namespace: Option<&Namespace>,
                cursor: Option<Cursor>,
                limit: u32,
            ) -> Result<Page<weaver_core::quarantine::Quarantined>> {
                self.$field.list_quarantined(namespace, cursor, limit).await
            }
            async fn find_quarantined(
                &self,
                keys: &[weaver_core::id::TaskKey],
            ) -> Result<Vec<Option<weaver_core::quarantine::Quarantined>>> {
                self.$field.find_quarantined(keys).await
            }
            async fn raw_task(
                &self,
                key: &weaver_core::id::TaskKey,
            ) -> Result<Option<weaver_core::quarantine::RawTask>> {
                self.$field.raw_task(key).await
            }
            async fn discard_task(
                &self,
                key: &weaver_core::id::TaskKey,
                expected: &weaver_core::quarantine::RawTask,
            ) -> Result<weaver_core::quarantine::Discarded> {
                self.$field.discard_task(key, expected).await
            }
        }
    };
}

/// Passes reads of tasks on to a field.
macro_rules! delegate_tasks_port {
    ($type:ty, $field:ident) => {
        #[async_trait::async_trait]
        impl weaver_core::ports::Tasks for $type {
            async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
                self.$field.resolve(namespace, ids).await
            }
            async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
                self.$field.get_tasks(keys).await
            }
            async fn list_groups(
                &self,
                namespace: &Namespace,
                cursor: Option<Cursor>,
                limit: u32,
            ) -> Result<Page<GroupSummary>> {
                self.$field.list_groups(namespace, cursor, limit).await
            }
            async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
                self.$field.list_tasks(query).await
            }
            async fn counts(&self, scope: Scope) -> Result<Counts> {
                self.$field.counts(scope).await
            }
            async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
                self.$field.ahead_of(key, cap).await
            }
        }
    };
}

pub(super) use {delegate_side_ports, delegate_tasks_port};
