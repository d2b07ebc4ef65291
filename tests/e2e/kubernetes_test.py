"""packaging/helm and packaging/kubernetes: what the chart makes, and the manifests beside it,
fit the schemas of Kubernetes, of the Gateway API, of the Prometheus operator and of
CloudNativePG. Their names lead to each other, and the programs understand what they are
given there: a single broker is closed from its first start, the first broker of several
begins the cluster, others follow, and probes get answers."""

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
CHART = ROOT / "packaging/helm/tidings"


def read(*names):
    """The objects of these manifests."""
    texts = [(FOLDER / f"{name}.yaml").read_text() for name in names]
    return [one for text in texts for one in yaml.safe_load_all(text)]


SINGLE = read("broker")
CLUSTER = read("postgresql", "tidings", "route")


def found(kind, name, objects=None):
    (one,) = [
        o
        for o in objects or CLUSTER
        if (o["kind"], o["metadata"]["name"]) == (kind, name)
    ]
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
    "monitoring.coreos.com/v1": (
        "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"
    ),
}

# Of the chart: what is not there by default.
ALL = {
    "image": {"repository": "images.example/tidings", "tag": "1", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "publicUrl": "https://changes.example.org/news",
    "config": "log-level = debug\nca-file = /etc/tidings/secrets/peers/ca.crt\n",
    "secrets": [{"name": "peers"}, {"name": "bucket"}],
    "env": [{"name": "AWS_REGION", "value": "eu"}],
    "tls": {"secretName": "changes-tls"},
    "persistence": {
        "size": "1Ti",
        "storageClass": "fast",
        "annotations": {"example.org/kept": "yes"},
    },
    "service": {"type": "NodePort", "port": 80, "annotations": {"example.org/a": "b"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"example.org/read-timeout": "3600"},
        "tlsSecretName": "ingress-tls",
    },
    "route": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "net"}]},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"name": "gateway"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}],
    },
    "serviceMonitor": {
        "enabled": True,
        "interval": "1m",
        "labels": {"release": "prometheus"},
        "token": {"secretName": "observer", "key": "token"},
        "tlsConfig": {"serverName": "changes.example.org"},
    },
    "podLabels": {"example.org/team": "news"},
    "podAnnotations": {"example.org/note": "x"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "disk", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "high",
    "terminationGracePeriodSeconds": 30,
}
OF_A_CLUSTER = {"publicUrl": "https://changes.example.org", "cluster": {"enabled": True}}
VALUES = {
    "default": {},
    "all": ALL,
    "cluster": OF_A_CLUSTER,
    "cluster without readers": {
        **OF_A_CLUSTER,
        "cluster": {"enabled": True, "readers": 0, "durableBy": "disk", "keep": "1G"},
    },
    "all of a cluster": {**ALL, **OF_A_CLUSTER},
}


@pytest.fixture
def helm(run, tmp_path):
    """Runs helm with the chart and these values; returns what it has done."""

    def call(command, values, status=0, name="tidings"):
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(values))
        words = (*command, CHART) if command[0] == "lint" else (*command, name, CHART)
        env = {"HOME": str(tmp_path)}
        return run(npm.helm(), *words, "--values", file, status=status, env=env)

    return call


def rendered(helm, values, **options):
    text = helm(["template"], values, **options).output()
    return [one for one in yaml.safe_load_all(text) if one]


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


def broken(kind, name, *path, value, objects=None):
    """That object with another value there."""
    one = copy.deepcopy(found(kind, name, objects))
    place = one["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return one


def test_the_objects_fit_their_schemas(run, helm, tmp_path):
    charted = {name: rendered(helm, values) for name, values in VALUES.items()}
    everything = charted["all"]
    objects = [*SINGLE, *CLUSTER, *(one for all in charted.values() for one in all)]
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
        broken("ServiceMonitor", "tidings", "endpoint", value=[], objects=everything),
        broken("NetworkPolicy", "tidings", "ingress", value={}, objects=everything),
        broken("Ingress", "tidings", "rules", value="/", objects=everything),
    ]
    faults, said = check([*objects, *wrong], run, tmp_path)
    assert faults == {len(objects) + i for i in range(len(wrong))}, said


# The chart


def test_the_manifests_are_those_of_the_chart(run, tmp_path):
    env = {**os.environ, "HELM": str(npm.helm()), "HOME": str(tmp_path)}
    run(FOLDER / "render", tmp_path, env=env)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.yaml")}
    assert made == {name: (FOLDER / name).read_text() for name in made}
    assert {*made, "postgresql.yaml"} == {path.name for path in FOLDER.glob("*.yaml")}


def test_the_chart_has_no_faults(helm):
    for values in VALUES.values():
        assert "0 chart(s) failed" in helm(["lint", "--strict"], values).output()


# The file of a release, of what is committed.
def test_the_chart_becomes_a_file(run, tmp_path):
    env = {**os.environ, "HELM": str(npm.helm())}
    for verb in ("build", "check"):
        run(ROOT / "packaging/parts/chart", verb, tmp_path, env=env)
    (made,) = tmp_path.iterdir()
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    assert made.name == f"tidings-chart-{version}.tgz"


# Each option of the chart reaches an object: with all of them, each default is replaced,
# and the words of each value are in what comes out.
def test_each_value_reaches_an_object(helm):
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    fixed = {"restartOnChange", "cluster", "resources", "podSecurityContext", "securityContext"}
    assert {*ALL, *fixed} == {*known}
    for name, values in ALL.items():
        default = known[name]
        if isinstance(default, dict) and default:
            assert {*values} == {*default}, name
    text = helm(["template"], ALL).output()

    def leaves(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [leaf for one in value for leaf in leaves(one)]
        return [] if value is True else str(value).splitlines()

    for leaf in leaves({**ALL, "publicUrl": "changes.example.org/news"}):
        assert leaf in text, leaf
    changed = {"restartOnChange": False, "resources": {"limits": {"memory": "7Gi"}}}
    changed["podSecurityContext"] = {"runAsUser": 4711}
    changed["securityContext"] = {"readOnlyRootFilesystem": False}
    (stateful,) = [o for o in rendered(helm, changed) if o["kind"] == "StatefulSet"]
    (container,) = pod(stateful)["containers"]
    assert "annotations" not in stateful["spec"]["template"]["metadata"]
    assert container["resources"]["limits"]["memory"] == "7Gi"
    assert pod(stateful)["securityContext"]["runAsUser"] == 4711
    assert container["securityContext"]["readOnlyRootFilesystem"] is False


# A token, a certificate and all else that is secret are in Secrets, and pods may do little.
@pytest.mark.parametrize("values", VALUES)
def test_pods_have_no_rights(values, helm):
    kinds = set()
    for one in rendered(helm, VALUES[values]):
        kinds.add(one["kind"])
        if one["kind"] != "StatefulSet":
            continue
        assert pod(one)["automountServiceAccountToken"] is False
        assert pod(one)["securityContext"]["runAsNonRoot"] is True
        assert pod(one)["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in (*pod(one)["containers"], *pod(one).get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    optional = {"Ingress", "HTTPRoute", "NetworkPolicy", "ServiceMonitor"}
    assert kinds & optional == (optional if values.startswith("all") else set())


# Two releases in one namespace have no name in common, and no pod. Prometheus asks each pod
# once: one Service is selected.
@pytest.mark.parametrize("values", ["all", "all of a cluster"])
def test_releases_are_apart(values, helm):
    releases = [rendered(helm, VALUES[values], name=name) for name in ("a", "b")]
    names = [{(o["kind"], o["metadata"]["name"]) for o in one} for one in releases]
    assert all(name.startswith("a-tidings") for _, name in names[0])
    assert not names[0] & names[1]

    def labels(of, kind):
        return [o["metadata"]["labels"] for o in releases[of] if o["kind"] == kind]

    def selectors(value):
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in ("selector", "labelSelector", "podSelector", "matchLabels"):
                    yield inner.get("matchLabels", inner)
                yield from selectors(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from selectors(inner)

    found_selectors = [s for o in releases[0] for s in selectors(o)]
    assert len(found_selectors) >= 4
    for selector in found_selectors:
        assert not any(selector.items() <= pod.items() for pod in labels(1, "StatefulSet"))
    monitor = found("ServiceMonitor", "a-tidings", releases[0])["spec"]["selector"]
    (absent,) = monitor["matchExpressions"]
    assert absent["operator"] == "DoesNotExist"
    selected = [
        has
        for has in labels(0, "Service")
        if monitor["matchLabels"].items() <= has.items() and absent["key"] not in has
    ]
    assert len(selected) == 1


def test_the_chart_refuses_wrong_values(helm):
    for values, words in (
        ({"replicas": 3}, "'replicas' not allowed"),
        ({"cluster": {"replica": 3}}, "'replica' not allowed"),
        ({"publicUrl": "changes.example.org"}, "/publicUrl"),
        ({"persistence": {"size": "much"}}, "/persistence/size"),
        ({"service": {"type": "Internal"}}, "/service/type"),
        ({"cluster": {"journal": {"address": "host=a password=b"}}}, "/journal/address"),
        ({"cluster": {"enabled": True}}, "publicUrl is missing: all brokers of a cluster"),
        ({"ingress": {"enabled": True}}, "publicUrl is missing: ingress and route"),
        (
            {"route": {"enabled": True}, "publicUrl": "https://a.example"},
            "route.parentRefs is empty",
        ),
    ):
        assert words in helm(["template"], values, status=1).errors(), values


def test_the_notes_have_the_first_command(helm):
    said = helm(["install", "--dry-run=client"], OF_A_CLUSTER).output()
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    assert f"Tidings {version} is at https://changes.example.org." in said
    make = "exec tidings-0 -- tidingsd token add admin --admin --data /var/lib/tidings/data"
    assert make in said


# Names


def test_names_lead_to_each_other():
    services = {o["metadata"]["name"]: o for o in CLUSTER if o["kind"] == "Service"}
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

# This server has no standbys.
DISK_HERE = {"--cluster-durable-by=standbys": "=".join(DISK)}


class Pod(Broker):
    """A broker with the arguments and the files of a pod, in a directory of its own."""

    def __init__(self, stateful, n, address, directory, run, config=None):
        config = config or CONFIG
        options = DISK if config is CONFIG else ()
        self.name = f"{stateful['metadata']['name']}-{n}"
        self.values = {
            "POD_NAME": self.name,
            "CLUSTER": address,
            "PUBLIC_URL": config["public-url"],
            "PGPASSWORD": PASSWORD,
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        self.home = directory / self.name
        self.home.mkdir()
        self.places = {"/var/lib/tidings": self.home, "/etc/tidings/config": directory}
        (self.home / "tidingsd.ini").write_text(self.placed(config["tidingsd.ini"]))
        for container in pod(stateful).get("initContainers", ()):
            words = [self.filled(word) for word in container["args"]]
            words = [DISK_HERE.get(word, word) for word in words]
            self.begun = run("tidingsd", *words, env=self.values).output()
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
        super().__init__(directory, (*given, *options), env=env, data=data)

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


# Nobody gets in before there is a token, which the operator makes in the running pod.
def test_the_pod_of_a_single_broker_serves(run, tmp_path):
    config = found("ConfigMap", "tidings", SINGLE)["data"]
    one = Pod(found("StatefulSet", "tidings", SINGLE), 0, "", tmp_path, run, config)
    try:
        assert one.probes == ["/healthz", "/healthz", "/readyz"]
        assert [one.get(path).status for path in one.probes] == [200, 200, 200]
        post = ("/sets/news/changes", [change("http://example.com/")], "application/json")
        assert one.post(*post).status == 401
        made = run("tidingsd", "token", "add", "admin", "--admin", "--data", one.data)
        bearer = {"authorization": f"Bearer {made.out[0]}"}
        assert one.post(*post, **bearer).status == 200
        assert config["public-url"] in one.get("/sets/news", **bearer).text
    finally:
        one.end()


# With files in the places of Secrets: the settings of a pod with TLS are good.
@pytest.mark.parametrize("values", ["default", "all"])
def test_the_settings_of_the_chart_are_good(values, helm, run, certificate, tmp_path):
    objects = rendered(helm, VALUES[values])
    text = found("ConfigMap", "tidings", objects)["data"]["tidingsd.ini"]
    cert, key = certificate.cert, certificate.key
    for place, file in (
        ("/etc/tidings/tls/tls.crt", cert),
        ("/etc/tidings/tls/tls.key", key),
        ("/etc/tidings/secrets/peers/ca.crt", cert),
    ):
        text = text.replace(place, str(file))
    assert "/etc/tidings" not in text
    (tmp_path / "tidingsd.ini").write_text(text)
    url = found("ConfigMap", "tidings", objects)["data"]["public-url"]
    options = ("--config", tmp_path / "tidingsd.ini", "--public-url", url)
    run("tidingsd", *options, "--data", tmp_path / "data", "--check-settings")


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
        assert "the journal begins behind record 0" in first.begun
        assert "the database has a cluster already" in second.begun
        assert [path for one in (first, reader) for path in one.probes] == [
            *("/healthz", "/healthz", "/readyz"),
            *("/healthz", "/healthz", "/readyz?for=reads"),
        ]
        post = ("/sets/news/changes", [change("http://example.com/")])
        assert second.post(*post, "application/json").status == 401
        made = run("tidingsd", "token", "add", "admin", "--admin", "--data", first.data)
        bearer = {"authorization": f"Bearer {made.out[0]}"}
        wait_for("the token", lambda: second.get("/sets", **bearer).status == 200)
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
        assert "the database has a cluster already" in again.begun
        wait_for(
            "the change at the new first broker",
            lambda: again.get(where[0], **bearer).status == 200,
        )
    finally:
        for one in pods:
            one.end()
