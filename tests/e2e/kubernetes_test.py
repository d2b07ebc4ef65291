"""packaging/kubernetes: its objects fit the schemas of Kubernetes, of the Gateway API and of
CloudNativePG, their names lead to each other, and the programs understand what they are
given there: the first broker begins the cluster, others follow, and probes get answers."""

import copy
import json
import os
import re
import shutil

import pytest
import yaml

from tidings_test import npm
from tidings_test.broker import BIN, ROOT, Broker
from tidings_test.cluster import DISK
from tidings_test.postgresql import Postgresql
from tidings_test.sets import change
from tidings_test.waiting import wait_for

FOLDER = ROOT / "packaging/kubernetes"
OBJECTS = [
    one
    for path in sorted(FOLDER.glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text())
]


def found(kind, name):
    (one,) = [o for o in OBJECTS if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return one


CONFIG = found("ConfigMap", "tidings")["data"]
STATEFUL = [found("StatefulSet", name) for name in ("tidings", "tidings-reader")]
BROKERS, READERS = STATEFUL


def pod(stateful):
    return stateful["spec"]["template"]["spec"]


# Schemas

PACKAGES = {
    "postgresql.cnpg.io/v1": "@kubernetes-models/cloudnative-pg/postgresql.cnpg.io/v1",
    "gateway.networking.k8s.io/v1": (
        "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1"
    ),
}


def check(objects, run, directory):
    """The numbers of the objects of which something is wrong, and what: names of fields by
    the types, values by the schemas."""
    npm.install(directory)
    lines = []
    for i, one in enumerate(objects):
        kind, version = one["kind"], one["apiVersion"]
        package = PACKAGES.get(version, f"kubernetes-models/{version}")
        data = {k: v for k, v in one.items() if k not in ("kind", "apiVersion")}
        of_kind = f"Kind{i}"
        lines.append(
            f'import {{ {kind} as {of_kind} }} from "{package}"; '
            f"try {{ new {of_kind}({json.dumps(data)}).validate(); }} "
            f"catch (e) {{ console.error(`program.mts({i + 1},0): ${{e}}`); }}"
        )
    (directory / "program.mts").write_text("\n".join(lines))
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    options += ("--types", "node")
    typed = run(npm.command("tsc"), *options, "program.mts", cwd=directory, status=None)
    valued = run(npm.node(), "program.mjs", cwd=directory)
    said = f"{typed.output()}\n{valued.errors()}"
    return {int(n) - 1 for n in re.findall(r"^program\.mts\((\d+),", said, re.M)}, said


def broken(kind, name, *path, value):
    """That object with another value there."""
    one = copy.deepcopy(found(kind, name))
    place = one["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return one


def test_the_objects_fit_their_schemas(run, tmp_path):
    synchronous = ("Cluster", "tidings-journal", "postgresql", "synchronous")
    container = ("StatefulSet", "tidings", "template", "spec", "containers", 0)
    route = [{"matches": [{"method": "FETCH"}]}]
    wrong = [
        broken(*synchronous, "method", value="all"),
        broken(*synchronous, "dataDurabilty", value="required"),
        broken("Cluster", "tidings-journal", "instances", value="three"),
        broken(*container, "readinessProb", value={}),
        broken(*container, "ports", value=[{"name": "http"}]),
        broken("StatefulSet", "tidings", "replicas", value="3"),
        broken("Service", "tidings", "ports", value=[{"port": "http"}]),
        broken("HTTPRoute", "tidings", "rules", value=route),
        broken("PodDisruptionBudget", "tidings", "maxUnavailble", value=1),
    ]
    faults, said = check([*OBJECTS, *wrong], run, tmp_path)
    assert faults == {len(OBJECTS) + i for i in range(len(wrong))}, said


# Names


def test_names_lead_to_each_other():
    services = {o["metadata"]["name"]: o for o in OBJECTS if o["kind"] == "Service"}
    labels = {}
    for stateful in STATEFUL:
        spec, template = stateful["spec"], stateful["spec"]["template"]
        labels[stateful["metadata"]["name"]] = template["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == template["metadata"]["labels"]
        assert services[spec["serviceName"]]["spec"]["clusterIP"] == "None"
        (spread,) = pod(stateful)["topologySpreadConstraints"]
        assert spread["labelSelector"] == spec["selector"]
        volumes = {v["name"] for v in pod(stateful)["volumes"]}
        volumes |= {c["metadata"]["name"] for c in spec["volumeClaimTemplates"]}
        for container in (*pod(stateful)["containers"], *pod(stateful).get("initContainers", ())):
            assert {m["name"] for m in container["volumeMounts"]} == volumes
            for variable in container["env"]:
                key = variable["valueFrom"].get("configMapKeyRef")
                assert not key or (key["name"] == "tidings" and key["key"] in CONFIG)
                secret = variable["valueFrom"].get("secretKeyRef")
                assert not secret or secret["name"] == "tidings-journal-app"
        (container,) = pod(stateful)["containers"]
        assert container["ports"] == [{"name": "http", "containerPort": 8787}]

    def selected(selector):
        return [name for name, has in labels.items() if selector.items() <= has.items()]

    assert {name: selected(s["spec"]["selector"]) for name, s in services.items()} == {
        "tidings": ["tidings", "tidings-reader"],
        "tidings-posts": ["tidings"],
        "tidings-reads": ["tidings", "tidings-reader"],
    }
    for name in ("tidings", "tidings-reader"):
        budget = found("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"]
        assert selected(budget) == [name]
    for rule in found("HTTPRoute", "tidings")["spec"]["rules"]:
        for backend in rule["backendRefs"]:
            assert backend["port"] in [p["port"] for p in services[backend["name"]]["spec"]["ports"]]
    journal = found("Cluster", "tidings-journal")
    begun = journal["spec"]["bootstrap"]["initdb"]
    address = dict(word.split("=", 1) for word in CONFIG["cluster"].split())
    assert address["host"] == f"{journal['metadata']['name']}-rw"
    assert (address["dbname"], address["user"]) == (begun["database"], begun["owner"])
    assert found("HTTPRoute", "tidings")["spec"]["hostnames"] == [
        CONFIG["public-url"].removeprefix("https://")
    ]


# Programs

PASSWORD = "of the Secret"


class Pod(Broker):
    """A broker with the arguments and the files of a pod, in a directory of its own."""

    def __init__(self, stateful, n, address, directory, run):
        self.name = f"{stateful['metadata']['name']}-{n}"
        self.values = {
            "POD_NAME": self.name,
            "CLUSTER": address,
            "PUBLIC_URL": CONFIG["public-url"],
            "PGPASSWORD": PASSWORD,
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        self.home = directory / self.name
        self.home.mkdir()
        self.places = {"/var/lib/tidings": self.home, "/etc/tidings/config": directory}
        for name in ("tidingsd.ini", "begin.sh"):
            text = CONFIG[name]
            if name == "begin.sh":  # this server has no standbys
                text = text.replace('"$CLUSTER"', f'"$CLUSTER" {" ".join(DISK)}')
            (self.home / name).write_text(self.placed(text))
        for container in pod(stateful).get("initContainers", ()):
            command = [self.placed(word) for word in container["command"]]
            command[-1] = self.home / "begin.sh"
            run(*command, env=self.values)
        (container,) = pod(stateful)["containers"]
        given = [self.filled(word) for word in container["args"]]
        assert given[0] == f"--config={directory}/tidingsd.ini"
        given[0] = f"--config={self.home}/tidingsd.ini"
        self.probes = [
            container[f"{kind}Probe"]["httpGet"]["path"]
            for kind in ("startup", "liveness", "readiness")
        ]
        environment = {variable["name"] for variable in container["env"]}
        env = {name: self.values[name] for name in environment}
        data = f"{self.name}/data"
        super().__init__(directory, (*given, *DISK), env=env, data=data)

    def placed(self, text):
        for there, here in self.places.items():
            text = text.replace(there, str(here))
        return text

    def filled(self, text):
        for name, value in self.values.items():
            text = text.replace(f"$({name})", value)
        assert "$(" not in text
        return self.placed(text)


@pytest.fixture
def server():
    started = Postgresql(syncs=True)
    started.query(f"CREATE ROLE tidings LOGIN PASSWORD '{PASSWORD}'")
    started.query("CREATE DATABASE tidings OWNER tidings")
    rules = "local all tidings scram-sha-256\nlocal all all trust\n"
    (started.data / "pg_hba.conf").write_text(rules)
    started.query("SELECT pg_reload_conf()")
    yield started
    started.end()


def test_the_pods_become_a_cluster(server, run, tmp_path):
    address = f"host={server.directory} user=tidings dbname=tidings"
    pods = []
    try:
        for stateful in STATEFUL:
            for n in range(2):
                pods.append(Pod(stateful, n, address, tmp_path, run))
                wait_for(
                    f"{pods[-1].name} to be ready",
                    lambda: all(pods[-1].get(path).status == 200 for path in pods[-1].probes),
                )
        first, second, reader, _ = pods
        assert [path for one in (first, reader) for path in one.probes] == [
            *("/healthz", "/healthz", "/readyz"),
            *("/healthz", "/healthz", "/readyz?for=reads"),
        ]
        post = ("/sets/news/changes", [change("http://example.com/")])
        assert second.post(*post, "application/json").status == 401
        token = (first.home / "root-token").read_text().split()[0]
        bearer = {"authorization": f"Bearer {token}"}
        assert second.post(*post, "application/json", **bearer).status == 200
        where = ("/sets/news", None)
        wait_for(
            "the change at a reader",
            lambda: reader.get(where[0], **bearer).status == 200
            and reader.get(where[0], **bearer).json()["last"] == 1,
        )
        # A first broker that has lost its volume begins no other cluster.
        first.stop()
        shutil.rmtree(first.home)
        pods[0] = again = Pod(BROKERS, 0, address, tmp_path, run)
        assert not (again.home / "root-token").exists()
        wait_for(
            "the change at the new first broker",
            lambda: again.get(where[0], **bearer).status == 200,
        )
    finally:
        for one in pods:
            one.end()
