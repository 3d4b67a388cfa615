//! Lease items: one per lease call, with its plan, which is the list of tasks it claims.
//!
//! The plan is written before any claim, like a write-ahead log: every claim can be found when its lease
//! expires, and a repeated call returns what the first one granted.

use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::{LeaseToken, TaskId, TaskKey, Version};
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::task::TaskRecord;

use crate::codec::foreign::FOREIGN_TOKEN;
use crate::codec::value::{Attributes, n, s};
use crate::db::{Item, Table, Write, Written};
use crate::keys;
use crate::store::DynamoStore;

/// Maximum number of tasks stored in a plan; the most recent ones are kept.
const PLAN_MAX: usize = 4000;

/// A lease item: the tasks that one lease call claims under its token.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) token: LeaseToken,
    pub(crate) worker: WorkerId,
    pub(crate) namespace: Namespace,
    /// Grows with every change; writes are conditional on it.
    pub(crate) revision: u64,
    /// The tasks, and the versions at which they are claimed.
    pub(crate) tasks: Vec<(TaskId, Version)>,
}

impl Plan {
    pub(crate) fn of(item: &Item) -> Option<Self> {
        let pair = |value: &AttributeValue| {
            let text = value.as_s().ok()?;
            let (id, version) = text.split_once(keys::SEPARATOR)?;
            Some((TaskId(id.parse().ok()?), Version(version.parse().ok()?)))
        };
        let plan = item.get("plan").and_then(|plan| plan.as_l().ok())?;
        Some(Self {
            token: LeaseToken(u128::from_str_radix(item.text("sk")?, 16).ok()?),
            worker: WorkerId::try_from(item.text("worker")?).ok()?,
            namespace: Namespace::try_from(item.text("namespace")?).ok()?,
            revision: item.number("revision")?,
            tasks: plan.iter().filter_map(pair).collect(),
        })
    }

    fn item(&self) -> Item {
        let mut item = keys::lease(self.token);
        item.put_text("worker", self.worker.as_str());
        item.put_text("namespace", self.namespace.as_str());
        item.put_number("revision", self.revision);
        let skipped = self.tasks.len().saturating_sub(PLAN_MAX);
        let pairs = self.tasks.iter().skip(skipped);
        let plan = pairs.map(|(id, version)| s(keys::join(&[&id.to_string(), &version.to_string()])));
        item.insert("plan".to_owned(), AttributeValue::L(plan.collect()));
        item
    }

    pub(crate) fn keys(&self) -> Vec<TaskKey> {
        self.tasks.iter().map(|(id, _)| TaskKey::new(self.namespace.clone(), *id)).collect()
    }

    /// An error if the token belongs to another worker or namespace.
    pub(crate) fn check(&self, worker: &WorkerId, namespace: &Namespace) -> Result<(), Invalid> {
        if self.worker == *worker && self.namespace == *namespace {
            return Ok(());
        }
        Err(Invalid::new("token", Problem::TokenTaken))
    }
}

impl DynamoStore {
    pub(crate) async fn plan(&self, token: LeaseToken) -> Result<Option<Plan>> {
        Ok(self.db.get(Table::Data, vec![keys::lease(token)]).await?.first().and_then(Plan::of))
    }

    /// Replaces the previous revision of a plan; `false` if another call has changed it.
    pub(crate) async fn write_plan(&self, plan: &Plan) -> Result<bool> {
        let write = Write::put(Table::Data, plan.item());
        let write = match plan.revision {
            1 => write.when("attribute_not_exists(pk)"),
            later => write.when("revision = :seen").value(":seen", n(later - 1)),
        };
        match self.db.write(write).await? {
            Written::Applied(_) => Ok(true),
            Written::ConditionFailed | Written::Conflict => Ok(false),
        }
    }

    /// Adds one task to a token's plan, for a lease that a commit creates.
    pub(crate) async fn plan_one(
        &self,
        token: LeaseToken,
        worker: &WorkerId,
        task: &TaskKey,
        version: Version,
    ) -> Result<()> {
        loop {
            let (worker, namespace) = (worker.clone(), task.namespace.clone());
            let mut plan = match self.plan(token).await? {
                Some(plan) => plan,
                None => Plan { token, worker, namespace, revision: 0, tasks: Vec::new() },
            };
            plan.revision += 1;
            plan.tasks.push((task.id, version));
            if self.write_plan(&plan).await? {
                self.holds(token, plan.revision, [task.id]);
                return Ok(());
            }
        }
    }

    /// Records in memory which tasks are leased under a token.
    pub(crate) fn holds(&self, token: LeaseToken, revision: u64, tasks: impl IntoIterator<Item = TaskId>) {
        let mut leases = self.leases.lock();
        let held = leases.entry(token).or_default();
        held.revision = revision;
        held.tasks.extend(tasks);
    }

    /// Called when a task is no longer leased; the last task of a token removes its lease item.
    pub(crate) async fn left_lease(&self, before: &TaskRecord, after: &TaskRecord) {
        let Some(token) = before.lease.as_ref().map(|held| held.token) else { return };
        if token == FOREIGN_TOKEN || after.lease.as_ref().is_some_and(|held| held.token == token) {
            return;
        }
        self.left(token, before.key.id).await;
    }

    pub(crate) async fn left(&self, token: LeaseToken, id: TaskId) {
        let revision = {
            let mut leases = self.leases.lock();
            let Some(held) = leases.get_mut(&token) else { return };
            held.tasks.remove(&id);
            if !held.tasks.is_empty() {
                return;
            }
            let revision = held.revision;
            leases.remove(&token);
            revision
        };
        self.drop_plan(token, revision).await;
    }

    /// Removes a lease item without tasks, unless it has changed since.
    pub(crate) async fn drop_plan(&self, token: LeaseToken, revision: u64) {
        let write = Write::delete(Table::Data, keys::lease(token));
        self.write_best_effort(write.when("revision = :seen").value(":seen", n(revision))).await;
    }
}
