//! Runs all steps of a scenario, with its services.

use crate::{
    scenario::{Scenario, ScenarioRunner, SeedError},
    services::ServiceProvisioner,
};

/// Runs the steps in order. `provisioner` makes the services that a step asks for; fails if such a step has none.
pub(crate) async fn run_scenario(
    runner: &mut ScenarioRunner<'_>,
    scenario: &Scenario,
    mut provisioner: Option<&mut ServiceProvisioner<'_>>,
) -> Result<(), SeedError> {
    for step in &scenario.steps {
        runner.run_step(step).await?;
        if let Some(phase) = step.services {
            let reason = "services live in an [ecosystem], and the scenario has none".to_owned();
            let missing = SeedError::Step { step: step.name.clone(), reason };
            provisioner.as_deref_mut().ok_or(missing)?.run_phase(runner, &step.name, phase).await?;
        }
    }
    Ok(())
}
