//! A runner on tables that another program made from seed 000's YAML, with prompts that another program
//! writes: boto3, with the seed's attributes and nothing else. Default settings.

use std::process::Command;
use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;
use weaver_testkit::services::{boto3, dynamodb};

use crate::harness::{NAMESPACE, Runner, until};
use crate::pipe::Sandbox;
use crate::support::{Place, Run};

/// G11 on DynamoDB, and what a busy machine may add; without the wake-up it would be forty seconds.
const STOPS_WITHIN: Duration = Duration::from_secs(2 + 2);

/// Seed 000's YAML. It leaves the billing open: `BILLING` says it.
const TABLES: &str = "
def key(*names): return [{'AttributeName': n, 'KeyType': k} for n, k in zip(names, ('HASH', 'RANGE'))]
def defined(*names): return [{'AttributeName': n, 'AttributeType': 'S'} for n in names]
index = {'IndexName': 'status-index', 'KeySchema': key('status', 'created_at'),
    'Projection': {'ProjectionType': 'ALL'}}
if 'ProvisionedThroughput' in BILLING: index['ProvisionedThroughput'] = BILLING['ProvisionedThroughput']
client.create_table(TableName='pm-runner-queue', KeySchema=key('namespace', 'task_id'), **BILLING,
    AttributeDefinitions=defined('namespace', 'task_id', 'status', 'created_at'), GlobalSecondaryIndexes=[index])
client.create_table(TableName='pm-runner-runners', KeySchema=key('namespace', 'runner_id'), **BILLING,
    AttributeDefinitions=defined('namespace', 'runner_id'))
";
const ON_DEMAND: &str = "BILLING = {'BillingMode': 'PAY_PER_REQUEST'}";
const PROVISIONED: &str =
    "BILLING = {'ProvisionedThroughput': {'ReadCapacityUnits': 10, 'WriteCapacityUnits': 10}}";

/// Writes prompts, changes and reads them.
const QUEUE: &str = "
from datetime import datetime, timedelta, timezone
def put(task_id, session, at, prompt):
    iso = at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')
    item = dict(namespace='app', task_id=task_id, task_group_id='g', session_id=session, status='QUEUED',
        prompt=prompt, created_at=iso, updated_at=iso)
    client.put_item(TableName='pm-runner-queue', Item={name: {'S': value} for name, value in item.items()})
def where(task_id): return {'namespace': {'S': 'app'}, 'task_id': {'S': task_id}}
def status(task_id):
    found = client.get_item(TableName='pm-runner-queue', Key=where(task_id), ConsistentRead=True)
    return found['Item']['status']['S']
now = datetime.now(timezone.utc)
";

/// A directory with a project, and a database of its own: DynamoDB Local keeps one per access key.
pub(crate) struct Seeds {
    pub(crate) place: Place,
    endpoint: String,
    key: String,
}

impl Seeds {
    pub(crate) fn new(name: &str) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("project")).expect("a test can make directories");
        let key = format!("{name}{}", weaver_testkit::services::process_key());
        Self { place, endpoint: dynamodb::endpoint(), key }
    }

    fn python(&self, script: &str) -> String {
        boto3::run_script(&self.endpoint, &self.key, "us-east-1", script)
    }

    pub(crate) fn queue(&self, script: &str) -> String {
        self.python(&format!("{QUEUE}{script}"))
    }

    pub(crate) fn url(&self) -> String {
        self.endpoint.replace("http://", "dynamodb://")
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = self.place.command(arguments);
        command.env("WEAVER_NAMESPACE", NAMESPACE).env_remove("AWS_REGION");
        command.env("AWS_ACCESS_KEY_ID", &self.key).env("AWS_SECRET_ACCESS_KEY", "x");
        command
    }

    fn runner(&self) -> Command {
        let flags = "--project-root project -- sh -e agent.sh";
        self.command(&format!("runner --log warn --store {} {flags}", self.url()))
    }

    pub(crate) fn agent(&self, script: &str) {
        self.place.write("project/agent.sh", script);
    }

    pub(crate) fn pipe(&self, name: &str) {
        let made = Command::new("mkfifo").arg(self.place.path(&format!("project/{name}"))).status();
        assert!(made.expect("there is `mkfifo` (coreutils)").success());
    }
}

#[test]
fn a_runner_on_tables_of_the_seeds_yaml_names_the_command_after_which_it_works() {
    for (name, billing, created_at) in
        [("yaml", ON_DEMAND, "now"), ("provisioned", PROVISIONED, "now + timedelta(days=1)")]
    {
        let seeds = Seeds::new(name);
        seeds.python(&format!("{billing}{TABLES}"));
        seeds.agent("cat > said; echo done > ended");
        seeds.pipe("ended");
        let command = format!("weaver store init --store {}", seeds.url());
        Run::of(&mut seeds.runner()).failed(6, &["has no index `ready-index`", &command]);
        Run::of(&mut seeds.command(command.strip_prefix("weaver ").expect("it begins so"))).succeeded();
        // A creation in the future is no delay.
        seeds.queue(&format!("put('task-001', 's', {created_at}, 'say hello')"));
        let _runner = Runner::start(&mut seeds.runner());
        assert_eq!(seeds.place.read("project/ended"), "done\n", "{name}");
        assert_eq!(seeds.place.read("project/said"), "say hello", "{name}");
    }
}

#[test]
fn prompts_that_boto3_writes_run_one_at_a_time_in_order_of_creation_within_a_session() {
    let seeds = Seeds::new("order");
    Run::of(&mut seeds.command(&format!("store init --store {}", seeds.url()))).succeeded();
    // Two runners with a project each: only the session stands between their agents. An agent that finds
    // another one at work says so.
    let agent = "mkdir $1/busy || echo twice >> $1/order
cat >> $1/order; echo \" $WEAVER_TASK_ID\" >> $1/order; sleep 0.7; rmdir $1/busy";
    for name in ["second", "shared"] {
        std::fs::create_dir(seeds.place.path(name)).expect("a test can make directories");
    }
    seeds.agent(agent);
    seeds.place.write("second/agent.sh", agent);
    let shared = seeds.place.path("shared").display().to_string();
    let command = format!("[\"sh\", \"-e\", \"agent.sh\", \"{shared}\"]");
    let profile = format!("[profiles.both]\ncommand = {command}\nconfine.read_write = [\"{shared}\"]\n");
    seeds.place.write("weaver.toml", &profile);
    let put = "
for number in sorted(range(12), key=lambda n: (n * 7) % 12):
    put('task-%02d' % ((number * 5) % 12), 's', now + timedelta(milliseconds=number), str(number))
";
    seeds.queue(put);
    let _runners: [Runner; 2] = [("one", "project"), ("two", "second")].map(|(name, project)| {
        let flags = format!("--name {name} --project-root {project} --profile both");
        Runner::start(&mut seeds.command(&format!("runner --log warn --store {} {flags}", seeds.url())))
    });
    until("all prompts have run", || seeds.queue("print(status('task-07'))") == "COMPLETE\n");
    let wanted: String = (0..12).map(|number| format!("{number} task-{:02}\n", (number * 5) % 12)).collect();
    assert_eq!(seeds.place.read("shared/order"), wanted);
}

#[test]
fn a_cancelled_that_boto3_writes_kills_the_agent_of_a_runner_with_default_settings() {
    let seeds = Seeds::new("cancel");
    Run::of(&mut seeds.command(&format!("store init --store {}", seeds.url()))).succeeded();
    seeds.agent("sleep 1000 & readlink /proc/self/ns/pid > begun; wait");
    seeds.pipe("begun");
    seeds.queue("put('task-001', 's', now, 'x')");
    let _runner = Runner::start(&mut seeds.runner());
    let family = Sandbox::named(&seeds.place.read("project/begun"));
    assert!(family.alive() >= 2, "{family:?}");
    assert_eq!(seeds.queue("print(status('task-001'))"), "RUNNING\n");
    let cancel = "
client.update_item(TableName='pm-runner-queue', Key=where('task-001'), UpdateExpression='SET #s = :c',
    ExpressionAttributeNames={'#s': 'status'}, ExpressionAttributeValues={':c': {'S': 'CANCELLED'}})";
    seeds.queue(cancel);
    let clock = SystemClock::new();
    let cancelled_at = clock.monotonic();
    until("the agent has ended", || family.has_ended());
    let took = clock.monotonic().0.saturating_sub(cancelled_at.0);
    assert!(took <= STOPS_WITHIN, "{took:?}");
    assert_eq!(seeds.queue("print(status('task-001'))"), "CANCELLED\n", "it stays as it was written");
}
