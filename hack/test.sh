#!/usr/bin/env bash
# Runs every test, having first installed or built what they need: moto as the
# EC2 that we did not write, a real kube-apiserver and etcd, clusterctl, Helm, linters
# of what it renders, a Chromium and a Prometheus.
# Arguments go to go test: hack/test.sh -run TestC27 ./providers/aws
#
# Everything is kept in ${HOLDFAST_CACHE:-~/.cache/holdfast}: the first run on
# a machine takes long (it compiles a Kubernetes), later ones do not.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s (%ds)\n' "$1" "$SECONDS" >&2; }

step "moto"
HOLDFAST_MOTO=$(hack/moto/install.sh)
step "kube-apiserver, etcd and kubectl"
KUBEBUILDER_ASSETS=$(hack/kubebox/build.sh)
step "clusterctl"
HOLDFAST_CLUSTERCTL=$(hack/clusterctl/build.sh)
step "helm"
HOLDFAST_HELM=$(hack/helm/build.sh 3)
HOLDFAST_HELM4=$(hack/helm/build.sh 4)
step "kubeconform and kube-score"
HOLDFAST_CHARTLINT=$(hack/chartlint/build.sh)
step "chromium"
HOLDFAST_CHROMIUM=$(hack/chromium.sh)
step "prometheus"
HOLDFAST_PROMETHEUS=$(hack/prometheus/install.sh)
export HOLDFAST_MOTO KUBEBUILDER_ASSETS HOLDFAST_CLUSTERCTL HOLDFAST_HELM HOLDFAST_HELM4 HOLDFAST_CHARTLINT HOLDFAST_CHROMIUM HOLDFAST_PROMETHEUS
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=120s
# Read by tests that are built with -race.
export GORACE="suppressions=$PWD/hack/race-upstream.txt${GORACE:+ $GORACE}"

step "go test"
if [ $# -eq 0 ]; then set -- ./...; fi
go test -tags browser -shuffle=on -timeout 30m "$@"
step "done"
