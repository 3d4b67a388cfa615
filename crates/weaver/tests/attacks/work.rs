//! The three ways to have code of one's own run by Weaver.

use std::process::{Child, Stdio};

use crate::Printed;
use crate::programs::{Program, one_script, printed};
use crate::stage::Stage;

impl Stage {
    /// As the test script of an enqueued change.
    pub(crate) fn as_check(&self, programs: &[&Program]) -> Printed {
        let config = "[[check]]\\nname = \"unit\"\\ncommand = [\"sh\", \"attack.sh\"]\\n";
        self.sh(&format!(
            "git init -q -b main work && mkdir work/.weaver && printf '{config}' > work/.weaver/merge.toml && \
             echo true > work/attack.sh && git -C work add -A && git -C work commit -q -m first && \
             git clone -q --bare work project.git"
        ));
        self.says("merge add-repo project.git --base main");
        // It does not land: it says that it failed, when it has done its worst.
        std::fs::write(self.path.join("script"), one_script(programs) + "exit 1\n").unwrap();
        self.sh("git -C work switch -q -c attack main && cp script work/attack.sh && git -C work add -A && \
             git -C work commit -q -m attack && git -C work push -q ../project.git attack");
        self.says("merge enqueue --head attack");
        self.says("merge wait");
        printed(programs, &self.logs("--queue merge"))
    }

    /// As the script of a task.
    pub(crate) fn as_exec(&self, programs: &[&Program]) -> Printed {
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        self.sh(&format!(
            "git init -q --bare -b main project.git && cd project.git && git hash-object -t tree -w /dev/null > /dev/null && \
             git update-ref refs/heads/main $(git commit-tree {tree} -m x)"
        ));
        let payload =
            serde_json::json!({"command": "sh", "values": {"script": one_script(programs)}}).to_string();
        let mut command = self.weaver("enqueue exec --max-attempts 1 --wait");
        command.arg(payload).output().unwrap();
        printed(programs, &self.logs("--type exec"))
    }

    /// As an agent's prompt.
    pub(crate) fn as_agent(&self, programs: &[&Program]) -> Printed {
        self.sh("mkdir project && echo '. /dev/stdin' > project/agent.sh && git init -q --bare -b main project.git");
        let mut runner =
            self.weaver("runner --log warn --namespace app --project-root project -- sh agent.sh");
        let runner =
            Running(runner.env("WITNESS", "WITNESS-of-the-runner").stdout(Stdio::null()).spawn().unwrap());
        let mut command = self.weaver("prompt -n app --wait");
        command.arg("--").arg(one_script(programs)).output().unwrap();
        drop(runner);
        printed(programs, &self.logs("-n app"))
    }

    /// A runner of the namespace `app` in this directory, with a script `agent.sh` as its agent.
    pub(crate) fn runner(&self, project: &str) -> Running {
        let mut runner = self
            .weaver(&format!("runner --log warn --namespace app --project-root {project} -- sh agent.sh"));
        Running(runner.env("WITNESS", "WITNESS-of-the-runner").stdout(Stdio::null()).spawn().unwrap())
    }

    /// The logs of all such tasks.
    pub(crate) fn logs(&self, which: &str) -> String {
        let list = self.says(&format!("tasks list {which} --output json"));
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let namespace = if which.starts_with("-n") { which } else { "" };
        let ids = list["items"].as_array().unwrap().iter().filter_map(|task| task["id"].as_str());
        ids.map(|id| self.says(&format!("tasks logs {id} {namespace}"))).collect()
    }
}

/// Killed when dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may have ended already.
        let _ = self.0.wait();
    }
}
