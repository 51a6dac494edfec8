# One target an artifact, one a study, and one a Gram matrix: gram_NAME.


for study in wiring.catalogue.studies:

    rule:
        name:
            study
        input:
            wiring.study_files(study, SCALE),


for artifact in wiring.catalogue:
    if artifact.working:

        rule:
            name:
                artifact.name
            input:
                wiring.pictures(artifact.name, SCALE),

    else:

        rule:
            name:
                artifact.name
            log:
                f"logs/{artifact.name}.log",
            conda:
                "../../envs/report.yaml"
            params:
                artifact=artifact.name,
            shell:
                "python -m tangentbench.suite.steps planned {params.artifact} --log {log}"


for gram in wiring.grams(SCALE).plans:

    rule:
        name:
            f"gram_{gram}"
        input:
            wiring.certificates(gram, SCALE),
