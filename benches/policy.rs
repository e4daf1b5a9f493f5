//! What a policy costs before the first call: building it, a service of it,
//! and its description.

mod support;

use criterion::Criterion;

use support::inner::Inner;
use support::policy::{policy, stack};

fn main() {
    support::run(&[policies]);
}

fn policies(c: &mut Criterion) {
    let mut group = c.benchmark_group("policy");
    group.bench_function("build", |b| b.iter(policy));
    let policy = policy();
    group.bench_function("clone", |b| b.iter(|| policy.clone()));
    group.bench_function("service", |b| b.iter(|| stack(&policy, Inner::ready())));
    group.bench_function("describe", |b| b.iter(|| policy.describe()));
    let description = policy.describe();
    group.bench_function("print", |b| b.iter(|| description.to_string()));
}
