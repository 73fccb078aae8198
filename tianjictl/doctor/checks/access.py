"""Whether a host can be reached and told apart from the others: SSH, login shell, identity, clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation

SLOW_LOGIN_S = 5.0  #: a launch logs in once to each host; above this DNS or PAM of the host waits for something
OFF_S = 1.0  #: more than this and lines of two hosts' logs stand in the wrong order
WAY_OFF_S = 30.0  #: more than this is no drift: nothing keeps the clock
_EXCERPT = 120


def _reach(one: Examined, _situation: Situation) -> Verdict:
    if one.failure is not None:
        hint = one.failure.hint or one.failure.usual_hint or "ssh -v to the host by hand shows more"
        return fail(one.failure.message.removeprefix(f"{one.name}: "), hint)
    if one.here:
        return ok("this machine, no SSH")
    took = one.reached_s or 0.0
    if took > SLOW_LOGIN_S:
        return warn(
            f"logged in after {took:.1f} s",
            on(one, "sudo sed -i 's/^#\\?UseDNS.*/UseDNS no/' /etc/ssh/sshd_config && sudo systemctl reload ssh"),
        )
    return ok(f"logged in after {took:.1f} s")


def _shell(one: Examined, _situation: Situation) -> Verdict:
    printed = one.facts.login_prints.strip()
    if one.here:
        return skip("no login shell lies between")
    if not printed:
        return ok("the login shell is silent")
    mend = on(one, "sed -i '1i case $- in *i*) ;; *) return ;; esac' ~/.bashrc")
    return warn(f"the login shell prints: {printed[:_EXCERPT]!r}", mend)


def _duplicate(one: Examined, situation: Situation) -> Verdict:
    same = [each for each in situation.nodes_of(one) if each.name != one.name]
    if same:
        names = ", ".join(each.name for each in same)
        if one.here and all(each.here for each in same):
            return info(f"this machine, shared with {names}: each gets a part of its cores and memory")
        return fail(f"the same machine as {names}", f"leave all but one of {one.name}, {names} out of the inventory")
    own = one.facts.names.hostname
    namesakes = [each.name for each in situation.there if each is not one and each.facts.names.hostname == own]
    if own and namesakes:
        evidence = f"calls itself {own}, and so does {', '.join(namesakes)}"
        return warn(evidence, on(one, f"sudo hostnamectl set-hostname {one.name}"))
    return ok(f"calls itself {own}" if own else "no other name leads to it")


def _clock(one: Examined, _situation: Situation) -> Verdict:
    clock = one.facts.clock
    if one.here:
        return skip("this machine's own clock is what the others are held against")
    if clock is None:
        return skip("the host told no time")
    told = f"{abs(clock.offset_s):.3f} s {'ahead' if clock.offset_s > 0 else 'behind'}, ± {clock.uncertainty_s:.3f} s"
    off = abs(clock.offset_s) - clock.uncertainty_s
    mend = on(one, "sudo timedatectl set-ntp true || sudo systemctl enable --now chronyd")
    if off > WAY_OFF_S:
        return fail(told, mend)
    if off > OFF_S:
        return warn(told, mend)
    return ok(told)


CHECKS = (
    Check("ssh.reach", "a run is started, watched and stopped over SSH", _reach, quick=True),
    Check(
        "shell.prints",
        "programs that parse a login's output, such as rsync and mpirun, break on it",
        _shell,
        quick=True,
    ),
    Check(
        "host.duplicate",
        "two names for one machine would share its cores without knowing of it",
        _duplicate,
        quick=True,
    ),
    Check(
        "clock.offset",
        "logs, events and file ages of different hosts cannot be put in order; training itself uses no common clock",
        _clock,
        quick=True,
    ),
)
