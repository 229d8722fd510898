"""An agent that asks a model for the files, shows it what the compiler says, and hands in what came last."""

from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, ModelRequest, TaskView, hookimpl


class HelloAgent:
    name = "hello"
    model = "chosen with --model"
    control = False

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        if tools.model is None:
            raise AgentGaveUp(["it needs a model; choose one with --model"])
        texts = {name: {"type": "string"} for name in view.editable}
        schema = {"type": "object", "properties": texts, "required": list(texts)}
        prompt = f"{view.task_md}\n\n{view.cuda}\n\n{view.files['layout.csl']}"
        for _ in range(3):
            request = ModelRequest(stage="implementer", system="You write CSL.", user=prompt, answer_schema=schema)
            files = {name: str(text) for name, text in tools.complete(request).answer.items()}
            outcome = tools.compile(files)
            if outcome.ok:
                break
            prompt += "\n\nThe compiler says:\n" + "\n".join(outcome.diagnostics)
        return Candidate(files=files, model=tools.model)


@hookimpl
def fabrica_agents() -> list[HelloAgent]:
    return [HelloAgent()]
