"""Every metric of a run: its name, what it means, and how it is read off the view."""

from __future__ import annotations

from runtime.contract.states import ComponentState, Role
from tianjictl.metrics.families import (
    Kind,
    Metric,
    achieved,
    checkpoint_time,
    components,
    cores_used,
    counted,
    dropped,
    gauge_of,
    hosts,
    links,
    one,
    shape_of,
    sides,
    states,
)  # fmt: skip

COUNTER = Kind.COUNTER

#: True while the run goes on, and when it is over.
LASTING = (
    Metric("tianji_run_state", "Where the run stands: 1 for that state, 0 for the others.", states),
    Metric("tianji_run_attempt", "Launches and resumes of the run so far.", one(lambda v: v.attempt)),
    Metric("tianji_run_elapsed_seconds", "Training time, over all attempts.", one(lambda v: v.elapsed_s)),
    Metric("tianji_run_start_time_seconds", "When the run was launched, Unix time.",
           one(lambda v: None if v.started_at is None else v.started_at.timestamp())),
    Metric("tianji_env_steps", "Steps of environments.", one(lambda v: v.progress.env_steps), COUNTER),
    Metric("tianji_updates", "Updates of learners.", one(lambda v: v.progress.updates), COUNTER),
    Metric("tianji_episodes", "Episodes that have ended.", one(lambda v: v.progress.episodes), COUNTER),
    Metric("tianji_policy_version", "Newest version of the policy.", one(lambda v: v.progress.version)),
    Metric("tianji_reward_mean_100", "Mean return of the newest 100 episodes.", one(lambda v: v.reward.mean_100)),
    Metric("tianji_reward_best_mean_100", "The best that tianji_reward_mean_100 has been.",
           one(lambda v: v.reward.best_mean_100)),
    Metric("tianji_reward_evaluation_mean", "Mean return of the newest evaluation.",
           one(lambda v: v.reward.evaluation_mean)),
    Metric("tianji_samples_produced", "Samples that actors made.", one(lambda v: v.samples.produced), COUNTER),
    Metric("tianji_samples_consumed", "Samples that learners or replay memories took over.",
           one(lambda v: v.samples.consumed), COUNTER),
    Metric("tianji_samples_dropped", "Samples that were dropped: too stale, or for another reason.", dropped, COUNTER),
    Metric("tianji_samples_in_flight", "Samples that are made and not taken over yet.",
           one(lambda v: v.samples.in_flight)),
    Metric("tianji_checkpoints_complete", "Complete checkpoints that are kept.", one(lambda v: v.checkpoints.complete)),
    Metric("tianji_checkpoint_step", "Env steps at the newest complete checkpoint.",
           one(lambda v: v.checkpoints.last_step)),
    Metric("tianji_checkpoint_timestamp_seconds", "When the newest complete checkpoint was written, Unix time.",
           one(checkpoint_time)),
    Metric("tianji_component_restarts", "Restarts of a component.", components(lambda c: c.restarts), COUNTER),
)  # fmt: skip

_RATES = (
    Metric("tianji_env_steps_per_second", "Measured over 10 s.", one(lambda v: v.rates.env_steps_per_s)),
    Metric("tianji_samples_per_second", "Samples trained on, over 10 to 30 s.",
           one(lambda v: v.rates.samples_per_s)),
    Metric("tianji_updates_per_second", "Measured over 10 to 30 s.", one(lambda v: v.rates.updates_per_s)),
    Metric("tianji_predicted_env_steps_per_second", "As the plan expects.", one(lambda v: v.predicted.env_steps_per_s)),
    Metric("tianji_predicted_samples_per_second", "As the plan expects.", one(lambda v: v.predicted.samples_per_s)),
    Metric("tianji_predicted_updates_per_second", "As the plan expects.", one(lambda v: v.predicted.updates_per_s)),
    Metric("tianji_prediction_ratio", "Measured samples per second over predicted ones.", one(achieved)),
    Metric("tianji_prediction_drifting", "1 when the plan has been wrong for some time.",
           one(lambda v: v.drift.drifting)),
    Metric("tianji_advice_gain_ratio", "Predicted gain of a better shape: 0.25 is a quarter more samples per second.",
           one(lambda v: None if v.advice is None else v.advice.gain)),
    Metric("tianji_bottleneck", "What limits: 1 for that side, 0 for the others.", sides),
    Metric("tianji_fragment_sampling_seconds", "Time in which an actor makes a fragment (T_sp).",
           one(lambda v: v.bottleneck.t_sp_s)),
    Metric("tianji_fragment_receiving_seconds", "Time in which a buffer takes over a fragment (T_rv).",
           one(lambda v: v.bottleneck.t_rv_s)),
    Metric("tianji_pool_ratio", "P: batch size over buffer size.", one(lambda v: v.freshness.pool_ratio)),
    Metric("tianji_flow_ratio", "Samples trained on over samples made.", one(lambda v: v.freshness.flow_ratio)),
    Metric("tianji_staleness_ratio", "Share of the samples that were older than the algorithm allows.",
           one(lambda v: v.freshness.staleness_ratio)),
    Metric("tianji_version_lag_mean", "Mean version lag of the samples trained on, over 10 s.",
           one(lambda v: v.freshness.version_lag.mean)),
)  # fmt: skip

_PARTS = (
    Metric("tianji_components", "Components by role and state.", counted),
    Metric("tianji_shape_wanted", "Components of a role that the plan has.", shape_of(lambda v: v.shape.wanted)),
    Metric("tianji_shape_present", "Components of a role that work.", shape_of(lambda v: v.shape.present)),
    Metric("tianji_component_up", "1 while the component works.",
           components(lambda c: c.state is ComponentState.RUNNING)),
    Metric("tianji_component_heartbeat_age_seconds", "Since its heartbeat last advanced.",
           components(lambda c: c.heartbeat_age_s)),
    Metric("tianji_component_cpu_ratio", "CPU time per time: 1 is one core.", components(cores_used)),
    Metric("tianji_component_core_wait_ratio", "Share of its time that it was ready and its core was another's.",
           components(lambda c: None if c.cpu_percent is None else c.waiting_percent / 100)),
    Metric("tianji_component_throttled_ratio", "Share of its time that it was ready and a quota was used up.",
           components(lambda c: None if c.cpu_percent is None else c.throttled_percent / 100)),
    Metric("tianji_component_resident_memory_bytes", "Resident memory.", components(lambda c: c.rss_bytes)),
    Metric("tianji_component_busy_ratio", "Share of the time that it does not wait.", gauge_of("busy_share")),
    Metric("tianji_host_up", "1 while the host's agent is heard.", hosts(lambda h: h.state == "connected")),
    Metric("tianji_host_heartbeat_age_seconds", "Since the host's agent was last heard.",
           hosts(lambda h: h.heartbeat_age_s)),
    Metric("tianji_host_clock_offset_seconds", "Its clock minus the head's.", hosts(lambda h: h.clock_offset_s)),
    Metric("tianji_host_cores", "CPUs that the run may use there.", hosts(lambda h: len(h.cores))),
    Metric("tianji_link_up", "1 while couriers are joined over the link.", links(lambda k: k.state == "up")),
    Metric("tianji_link_bytes_per_second", "Sent in this direction.", links(lambda k: k.mb_per_s * 1e6)),
    Metric("tianji_link_sent_bytes", "Sent in this direction since it was joined.", links(lambda k: k.sent_bytes),
           COUNTER),
    Metric("tianji_link_saved_bytes", "Bytes that compression has saved since it was joined.",
           links(lambda k: k.saved_bytes), COUNTER),
    Metric("tianji_link_joins", "How often the couriers of the link were joined.", links(lambda k: k.joins), COUNTER),
)  # fmt: skip

_LEARNING = tuple(
    Metric(f"tianji_learner_{name}", text, gauge_of(gauge, Role.LEARNER))
    for gauge, name, text in (
        ("loss", "loss", "Loss of the newest update."),
        ("policy_loss", "policy_loss", "Its part of the policy."),
        ("value_loss", "value_loss", "Its part of the value function."),
        ("entropy", "entropy", "Entropy of the policy."),
        ("kl", "kl_divergence", "Estimated divergence from the policy that made the samples."),
        ("clip_share", "clipped_ratio", "Share of the samples whose importance ratio was clipped."),
        ("grad_norm", "gradient_norm", "Norm of the gradient, before clipping."),
        ("q_mean", "q_mean", "Mean action value."),
        ("learning_rate", "learning_rate", "Learning rate of the newest update."),
    )
)
_PLAYING = (
    Metric("tianji_actor_exploration_ratio", "Share of random actions (epsilon).", gauge_of("epsilon", Role.ACTOR)),
    Metric("tianji_replay_fill_ratio", "How full a replay memory is.", gauge_of("replay_fill", Role.BUFFER)),
)

#: True of a run that its coordinator answers for, and of no other.
LIVE = (*_RATES, *_PARTS, *_LEARNING, *_PLAYING)
