"""Studies: experiment protocols as data, each runnable by name with any agent and model."""

from __future__ import annotations

from fabrica_bench.studies.catalogue import list_studies, load_study, study_json_schema
from fabrica_bench.studies.planning import StudyPlan, plan_study
from fabrica_bench.studies.protocol import Arm, Study

__all__ = ["Arm", "Study", "StudyPlan", "list_studies", "load_study", "plan_study", "study_json_schema"]
